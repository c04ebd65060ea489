//! A replay's report as JSON. The schema is written down in the module above.

use serde::Serialize;

use super::{ReplayReport, ReplayRun};
use crate::{Error, Fact};

/// Names the schema; the number changes when a reader would notice.
const SCHEMA: &str = "tollgate.replay/1";

/// The report with its schema in front.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    title: &'a str,
    command: &'a str,
    trace: &'a [Fact],
    runs: &'a [ReplayRun],
}

impl ReplayReport {
    /// The report as one line of JSON, with a line break at its end.
    ///
    /// # Errors
    /// [`Error::Json`] if it cannot be serialised; no report that can be built is known to cause it.
    pub fn json(&self) -> Result<String, Error> {
        let mut text = serde_json::to_string(&Document {
            schema: SCHEMA,
            title: &self.title,
            command: &self.command,
            trace: &self.trace,
            runs: &self.runs,
        })?;
        text.push('\n');
        Ok(text)
    }
}
