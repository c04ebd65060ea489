//! How many file descriptors the process may have, and what that means for connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for all else: listeners, the runtime, looks at workers, files.
const RESERVE: u64 = 128;

/// What the process may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// The most file descriptors; none: as many as one likes.
    pub(crate) limit: Option<u64>,
}

/// Raises the limit as far as it goes, and reads what it is then.
pub(crate) fn descriptors() -> Descriptors {
    let limits = getrlimit(Resource::Nofile);
    if limits.current != limits.maximum {
        let raised = Rlimit {
            current: limits.maximum,
            maximum: limits.maximum,
        };
        // What cannot be raised is lived with.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    Descriptors {
        limit: getrlimit(Resource::Nofile).current,
    }
}

impl Descriptors {
    /// Connections of clients that may be served at one time: each takes a descriptor of its own, and one to
    /// its worker.
    pub(crate) fn connections(self) -> usize {
        /// Without a limit, memory is what there is less of.
        const MOST: u64 = 1 << 20;
        let most = self
            .limit
            .map_or(MOST, |limit| limit.saturating_sub(RESERVE) / 2);
        usize::try_from(most.clamp(1, MOST)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_two_descriptors() {
        let connections = |limit| Descriptors { limit }.connections();
        assert_eq!(connections(Some(20_000)), 9_936);
        assert_eq!(connections(Some(1_024)), 448);
        assert_eq!(connections(Some(10)), 1);
        assert_eq!(connections(None), 1 << 20);
    }
}
