//! `tollgate check`.

mod effective;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use tollgate_policy::file::{FILE_BYTES_MAX, read_bounded};
use tollgate_policy::{PolicyError, PolicyErrors, PolicyFile, PolicyWarning};

use crate::{BAD_INPUT, bad_input, print, tell};
use effective::EffectiveProfile;

/// Checks a policy file and prints what it comes to.
///
/// For every profile in the file: its settings, and its classes with the requests that reach them,
/// their shares, thresholds and limits; `unset` and 0 are different things. If the file is bad,
/// every error in it is printed with its line and what would be right. Exit status: 0 for a good
/// file, also with warnings; 2 for a bad one.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The policy file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object, also for a bad file
    #[arg(long)]
    json: bool,
    /// Show only the profile that requests for this model get
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
}

/// Checks the file and prints the result.
///
/// # Errors
/// If the result cannot be written.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let bytes = match read_bounded(&args.file, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => {
            let message = error.to_string();
            if args.json {
                print_json(&Refused::unread(&name, &message))?;
                return Ok(ExitCode::from(BAD_INPUT));
            }
            return Ok(bad_input(format!("{name}: {message}")));
        }
    };
    match PolicyFile::parse(&name, &bytes) {
        Ok(file) => {
            let profiles = profiles(&file, args.model.as_deref());
            if args.json {
                print_json(&Accepted::new(&name, &file, profiles))?;
            } else {
                for warning in file.warnings() {
                    tell(format_args!("warning: {warning}"));
                }
                print(&text::render(&name, file.warnings().len(), &profiles))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) if args.json => {
            print_json(&Refused::new(&errors))?;
            Ok(ExitCode::from(BAD_INPUT))
        }
        Err(errors) => Ok(bad_input(errors)),
    }
}

/// The one profile for `model`, or every profile that requests can get, the root's first.
fn profiles<'f>(file: &'f PolicyFile, model: Option<&'f str>) -> Vec<EffectiveProfile<'f>> {
    let source = if file.root().is_some() {
        "root"
    } else {
        "synthetic"
    };
    if let Some(model) = model {
        let has_own = file.models().any(|(name, _)| name == model);
        let source = if has_own { "model" } else { source };
        return vec![EffectiveProfile::new(
            Some(model),
            source,
            file.profile(Some(model)),
        )];
    }
    let root = EffectiveProfile::new(None, source, file.profile(None));
    let models = file
        .models()
        .map(|(model, profile)| EffectiveProfile::new(Some(model), "model", profile));
    std::iter::once(root).chain(models).collect()
}

/// What is printed about a good file.
#[derive(Debug, Serialize)]
struct Accepted<'f> {
    file: &'f str,
    valid: bool,
    warnings: Vec<Finding<'f>>,
    profiles: Vec<EffectiveProfile<'f>>,
}

impl<'f> Accepted<'f> {
    fn new(name: &'f str, file: &'f PolicyFile, profiles: Vec<EffectiveProfile<'f>>) -> Self {
        let warnings = file.warnings().iter().map(Finding::warning).collect();
        Self {
            file: name,
            valid: true,
            warnings,
            profiles,
        }
    }
}

/// What is printed about a bad file.
#[derive(Debug, Serialize)]
struct Refused<'e> {
    file: &'e str,
    valid: bool,
    errors: Vec<Finding<'e>>,
    /// How many more errors there are.
    errors_omitted: usize,
}

impl<'e> Refused<'e> {
    fn new(errors: &'e PolicyErrors) -> Self {
        Self {
            file: errors.source_name(),
            valid: false,
            errors: errors.errors().iter().map(Finding::error).collect(),
            errors_omitted: errors.omitted(),
        }
    }

    /// A file that could not even be read.
    fn unread(file: &'e str, message: &'e str) -> Self {
        let remedy = Some("give the path of a readable file");
        let finding = Finding {
            line: None,
            column: None,
            path: "",
            message,
            remedy,
            source: None,
        };
        Self {
            file,
            valid: false,
            errors: vec![finding],
            errors_omitted: 0,
        }
    }
}

/// An error or a warning.
#[derive(Debug, Serialize)]
struct Finding<'e> {
    line: Option<u32>,
    column: Option<u32>,
    /// The key.
    path: &'e str,
    message: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'e str>,
    /// The line of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'e str>,
}

impl<'e> Finding<'e> {
    fn error(error: &'e PolicyError) -> Self {
        Self {
            line: error.line(),
            column: error.column(),
            path: error.path(),
            message: error.message(),
            remedy: Some(error.remedy()),
            source: error.snippet(),
        }
    }

    fn warning(warning: &'e PolicyWarning) -> Self {
        Self {
            line: Some(warning.position().line),
            column: Some(warning.position().column),
            path: warning.path(),
            message: warning.message(),
            remedy: None,
            source: None,
        }
    }
}

fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(&text)
}
