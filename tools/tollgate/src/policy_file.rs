//! Policy files as the subcommands read them.

use std::path::Path;

use tollgate_policy::file::{FILE_BYTES_MAX, read_bounded};
use tollgate_policy::{PolicyFile, Profile};

use crate::tell;

/// Reads and checks the policy file at `path`.
///
/// # Errors
/// What is wrong with the file, ready to be printed.
pub(crate) fn read(path: &Path) -> Result<PolicyFile, String> {
    let name = path.display().to_string();
    let bytes = read_bounded(path, FILE_BYTES_MAX).map_err(|error| format!("{name}: {error}"))?;
    PolicyFile::parse(&name, &bytes).map_err(|errors| errors.to_string())
}

/// The profile of `model` in the file at `path`; its warnings go to standard error.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_profile(path: &Path, model: Option<&str>) -> Result<Profile, String> {
    let file = read(path)?;
    for warning in file.warnings() {
        tell(format_args!("warning: {warning}"));
    }
    Ok(file.profile(model).clone())
}
