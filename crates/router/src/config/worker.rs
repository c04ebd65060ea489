//! A worker as an operator names it, and what may be wrong with it.

use std::fmt;

use super::WorkerUrl;

/// A worker as an operator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Where it is; paths such as `/v1/completions` are appended.
    pub url: WorkerUrl,
    /// What it serves; empty: what its `/v1/models` lists. Names of 1 to 256 bytes, without control characters,
    /// and without blanks at their ends; each once.
    pub models: Vec<String>,
    /// Data-parallel ranks behind the one address, 1 to 65,536, and no more than
    /// [`EngineSizes::endpoints`](super::EngineSizes::endpoints). With more than one, each request carries its
    /// rank in [`HeaderNames::rank`](super::HeaderNames::rank). Default 1.
    pub ranks: u32,
    /// What fractions of thresholds refer to, in tokens (S5.1).
    pub max_batched_tokens: Option<u64>,
    /// The taints that it carries (S5.2): names as those of models, and without commas.
    pub taints: Vec<String>,
}

/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 256;
/// The most characters of what was found that a message repeats.
const SHOWN: usize = 40;

/// A member of a worker that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) member: &'static str,
    found: String,
    remedy: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.member, self.found, self.remedy)
    }
}

impl Fault {
    /// The same, as one of a list of workers, with the member and whose it is in what was found.
    pub(crate) fn of(&self, url: &WorkerUrl) -> (String, String) {
        let found = format!("{} of {url}: {}", self.member, self.found);
        (found, self.remedy.to_owned())
    }
}

impl WorkerConfig {
    /// A worker of which only the address is known.
    #[must_use]
    pub const fn new(url: WorkerUrl) -> Self {
        Self {
            url,
            models: Vec::new(),
            ranks: 1,
            max_batched_tokens: None,
            taints: Vec::new(),
        }
    }

    /// What is wrong with it, whatever room there is.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = name_faults("models", &self.models);
        if !(1..=65_536).contains(&self.ranks) {
            faults.push(Fault {
                member: "ranks",
                found: self.ranks.to_string(),
                remedy: "it must be between 1 and 65536",
            });
        }
        if self.max_batched_tokens == Some(0) {
            faults.push(Fault {
                member: "max_batched_tokens",
                found: "0".to_owned(),
                remedy: "it must be at least 1, or be left away",
            });
        }
        faults.extend(name_faults("taints", &self.taints));
        faults
    }
}

/// What is wrong with the names of `models` or `taints`: one fault for each name.
pub(crate) fn name_faults(member: &'static str, names: &[String]) -> Vec<Fault> {
    let wrong = names.iter().enumerate().filter_map(|(at, name)| {
        let is_twice = names[..at].contains(name);
        let (why, remedy) = name_fault(member, name)
            .or_else(|| is_twice.then_some(("stands there twice", "name each once")))?;
        let mut shown: String = name.chars().take(SHOWN).collect();
        if shown.len() < name.len() {
            shown.push('…');
        }
        Some(Fault {
            member,
            found: format!("{shown:?}, number {}, {why}", at + 1),
            remedy,
        })
    });
    wrong.collect()
}

/// What is wrong with one of them, and what would be right.
pub(crate) fn name_fault(member: &str, name: &str) -> Option<(&'static str, &'static str)> {
    if name.is_empty() {
        return Some(("is empty", "write a name, or leave it away"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Some(("is too long", "a name has at most 256 bytes"));
    }
    if name.contains(char::is_control) {
        let remedy = "a name has no line breaks, tabs or the like";
        return Some(("holds a control character", remedy));
    }
    if name.trim() != name {
        let remedy = "write the name without blanks before and after it";
        return Some(("begins or ends with a blank", remedy));
    }
    if member == "taints" && name.contains(',') {
        let remedy = "requests write commas between taints, so that no taint may hold one";
        return Some(("holds a comma", remedy));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_name_that_is_none_is_told_with_its_place() {
        let long = "m".repeat(NAME_BYTES_MAX + 1);
        for (name, why) in [
            ("", "\"\", number 2, is empty"),
            (long.as_str(), "mmm…\", number 2, is too long"),
            ("a\nb", "\"a\\nb\", number 2, holds a control character"),
            (" a", "begins or ends with a blank"),
            ("a\u{a0}", "begins or ends with a blank"),
            ("good", "\"good\", number 2, stands there twice"),
        ] {
            for member in ["models", "taints"] {
                let faults = name_faults(member, &names(&["good", name]));
                assert_eq!(faults.len(), 1, "{name:?}");
                let text = faults[0].to_string();
                assert!(text.starts_with(member) && text.contains(why), "{text}");
            }
        }
        let comma = names(&["a,b"]);
        assert!(name_faults("models", &comma).is_empty());
        assert!(
            name_faults("taints", &comma)[0]
                .to_string()
                .contains("a comma")
        );
    }

    #[test]
    fn usual_names_are_right_and_everything_wrong_is_told() {
        let url: WorkerUrl = "http://h:1".parse().expect("an address");
        let longest = "é".repeat(NAME_BYTES_MAX / 2);
        let mut worker = WorkerConfig {
            models: names(&["Qwen/Qwen3-8B", "my model: v2", &longest]),
            taints: names(&["gpu=h100", "eu"]),
            ..WorkerConfig::new(url)
        };
        assert_eq!(worker.faults(), []);
        worker.models.push(String::new());
        worker.ranks = 0;
        worker.max_batched_tokens = Some(0);
        worker.taints.push("eu".to_owned());
        let faults = worker.faults();
        let members: Vec<_> = faults.iter().map(|fault| fault.member).collect();
        assert_eq!(members, ["models", "ranks", "max_batched_tokens", "taints"]);
    }
}
