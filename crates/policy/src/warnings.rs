//! What the author of a valid policy file should know.

use crate::draft::Place;
use crate::keys;
use crate::locate::Source;
use crate::profile::{ClassPolicy, Profile};
use crate::reader::Fields;
use crate::report::{Mark, quoted};

/// Something to know, and its place.
#[derive(Debug)]
pub(crate) struct Warning {
    pub(crate) mark: Mark,
    pub(crate) path: String,
    pub(crate) message: String,
}

/// Sections of other parts of a router are skipped.
pub(crate) fn of_foreign_sections(root: &Fields<'_>, warnings: &mut Vec<Warning>) {
    for key in keys::FOREIGN {
        if root.entry(key).is_some() {
            warnings.push(Warning {
                mark: root.key_mark(key),
                path: key.to_owned(),
                message: "this section belongs to another part of the router and is skipped"
                    .to_owned(),
            });
        }
    }
}

/// Settings at the root reach no model, and without a root profile hardly anything.
pub(crate) fn of_root_settings(root: &Fields<'_>, warnings: &mut Vec<Warning>) {
    for key in keys::SETTINGS {
        if root.entry(key).is_some() {
            warnings.push(Warning {
                mark: root.key_mark(key),
                path: key.to_owned(),
                message: "set for requests of unlisted models only; a model's profile takes \
                          nothing from the root"
                    .to_owned(),
            });
        }
    }
}

/// What is legal in a profile's classes and yet surprising.
pub(crate) fn of_classes(source: &Source<'_>, profile: &Profile, warnings: &mut Vec<Warning>) {
    let mut warn = |index, key, message| {
        let place = Place::class(index, key);
        warnings.push(Warning {
            mark: source.mark(place),
            path: source.path(place),
            message,
        });
    };
    let thresholds = |class: &ClassPolicy| {
        (
            class.prefill_busy_threshold,
            class.prefill_busy_threshold_frac,
        )
    };
    let classes = profile.classes();
    let first = &classes[0];
    let different = classes
        .iter()
        .position(|class| thresholds(class) != thresholds(first));
    if let Some(index) = different {
        let key = if classes[index].prefill_busy_threshold != first.prefill_busy_threshold {
            keys::THRESHOLD
        } else {
            keys::THRESHOLD_FRAC
        };
        warn(
            index,
            key,
            format!(
                "{} and {} have different thresholds: while load lies between them, the class with \
                 the higher one goes first, whatever the quanta",
                quoted(&first.name),
                quoted(&classes[index].name)
            ),
        );
    }
    for (index, class) in classes.iter().enumerate() {
        if class.queue_timeout_ms == Some(0) {
            let message = "a timeout of 0 expires every request of this class at its submission";
            warn(index, keys::TIMEOUT, message.to_owned());
        }
    }
}
