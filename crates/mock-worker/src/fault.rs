//! Faults on request.

/// The header that names one.
pub(crate) const HEADER: &str = "x-mock-fault";

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The first token comes ten times as late.
    Slow,
    /// The head and half of the tokens, or of the body, then nothing for ever.
    Stall,
    /// Nothing at all, for ever.
    StallBefore,
    /// An answer with the status 500.
    InternalError,
    /// An answer with the status 503.
    Unavailable,
    /// The connection is closed within a frame, or within the declared length.
    Cut,
    /// The connection is reset before any answer.
    Reset,
    /// The connection is reset after half of the tokens, or of the body.
    ResetAfter,
    /// Bytes that are not HTTP.
    Garbage,
    /// An answer with the status 200 whose body is not JSON, or whose frames are not.
    GarbageBody,
}

impl Fault {
    const ALL: [Self; 10] = [
        Self::Slow,
        Self::Stall,
        Self::StallBefore,
        Self::InternalError,
        Self::Unavailable,
        Self::Cut,
        Self::Reset,
        Self::ResetAfter,
        Self::Garbage,
        Self::GarbageBody,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Stall => "stall",
            Self::StallBefore => "stall-before",
            Self::InternalError => "500",
            Self::Unavailable => "503",
            Self::Cut => "cut",
            Self::Reset => "reset",
            Self::ResetAfter => "reset-after",
            Self::Garbage => "garbage",
            Self::GarbageBody => "garbage-body",
        }
    }

    /// The fault of that name.
    ///
    /// # Errors
    /// For an unknown name, a message that lists those that there are.
    pub(crate) fn parse(name: &[u8]) -> Result<Self, String> {
        let known = Self::ALL
            .into_iter()
            .find(|fault| fault.name().as_bytes() == name);
        known.ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let all = Self::ALL.map(Self::name).join(", ");
            format!("{HEADER}: there is no fault {name:?}; there are {all}")
        })
    }

    /// Whether the request's end is not the model's: it keeps its sequence until its handler says so.
    pub(crate) const fn holds_its_sequence(self) -> bool {
        matches!(
            self,
            Self::Slow | Self::Stall | Self::StallBefore | Self::Cut | Self::ResetAfter
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name_and_no_other() {
        for fault in Fault::ALL {
            assert_eq!(Fault::parse(fault.name().as_bytes()), Ok(fault));
        }
        let message = Fault::parse(b"explode").expect_err("there is none");
        assert_eq!(
            message,
            "x-mock-fault: there is no fault \"explode\"; there are slow, stall, stall-before, 500, 503, \
             cut, reset, reset-after, garbage, garbage-body"
        );
    }
}
