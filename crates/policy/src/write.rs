//! A profile as the text of a policy file.

use std::fmt::{self, Write};

use crate::Fraction;
use crate::keys;
use crate::profile::{ClassPolicy, Matching, Profile};

impl Profile {
    /// The text of a policy file that has this profile at its root, and nothing else.
    ///
    /// [`PolicyFile::parse`](crate::PolicyFile::parse) reads it back to an equal profile; for a
    /// synthetic one with a threshold, which no file can say, together with
    /// [`PolicyFile::with_queue_threshold`](crate::PolicyFile::with_queue_threshold) and
    /// [`queue_threshold`](Self::queue_threshold). A fraction of more than 19 digits, which only a program
    /// can make, is more than a file may say.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::{PolicyFile, Profile, SelectorKind};
    ///
    /// let profile = Profile::synthetic(None).with_selector(SelectorKind::RoundRobin);
    /// let file = PolicyFile::parse("written", profile.to_file().as_bytes())?;
    /// assert_eq!(*file.profile(None), profile);
    /// # Ok::<(), tollgate_policy::PolicyErrors>(())
    /// ```
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a string takes everything")]
    pub fn to_file(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes everything");
        text
    }

    /// The threshold of a synthetic profile, as a fraction of a worker's `max_batched_tokens` (S3.5);
    /// none for a profile with classes of its own.
    #[must_use]
    pub fn queue_threshold(&self) -> Option<Fraction> {
        let class = self
            .classes
            .first()
            .filter(|_| self.default_family.is_none());
        class.and_then(|class| class.prefill_busy_threshold_frac)
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        let settings = self.settings();
        writeln!(
            text,
            "{}: {}",
            keys::ARBITRATION,
            settings.arbitration.name()
        )?;
        let action = settings.overload_action.name();
        writeln!(text, "{}: {action}", keys::OVERLOAD_ACTION)?;
        writeln!(text, "{}: {}", keys::SELECTOR, settings.selector.name())?;
        writeln!(text, "{}: {}", keys::DECODE_WEIGHT, settings.decode_weight)?;
        writeln!(text, "{}: {}", keys::MAX_ATTEMPTS, settings.max_attempts)?;
        let Some(default_family) = self.default_family() else {
            return Ok(());
        };
        writeln!(text, "{}: \"{default_family}\"", keys::DEFAULT_FAMILY)?;
        writeln!(text, "{}:", keys::BUCKETS)?;
        for bucket in self.buckets() {
            let (floor, name) = (bucket.min_tokens, &bucket.name);
            let (min_tokens, key) = (keys::MIN_TOKENS, keys::BUCKET);
            writeln!(text, "  - {{{min_tokens}: {floor}, {key}: \"{name}\"}}")?;
        }
        writeln!(text, "{}:", keys::CLASSES)?;
        for class in self.classes() {
            self.write_class(text, class)?;
        }
        Ok(())
    }

    fn write_class(&self, text: &mut String, class: &ClassPolicy) -> fmt::Result {
        writeln!(text, "  - {}: \"{}\"", keys::NAME, class.name)?;
        if let Matching::Matrix { family, bucket } = &class.matching {
            let bucket = &self.buckets[*bucket].name;
            writeln!(text, "    {}: \"{family}\"", keys::FAMILY)?;
            writeln!(text, "    {}: \"{bucket}\"", keys::CACHE_BUCKET)?;
        }
        writeln!(text, "    {}: {}", keys::QUEUE_POLICY, class.order.name())?;
        writeln!(text, "    {}: {}", keys::QUANTUM, class.quantum)?;
        let fractions = [
            (keys::THRESHOLD_FRAC, class.prefill_busy_threshold_frac),
            (keys::RATIO, class.busy_worker_ratio),
        ];
        for (key, fraction) in fractions {
            if let Some(fraction) = fraction {
                writeln!(text, "    {key}: {fraction}")?;
            }
        }
        let numbers = [
            (keys::THRESHOLD, class.prefill_busy_threshold),
            (keys::REQUEST_LIMIT, class.request_queue_limit_per_worker),
            (
                keys::RAW_ISL_LIMIT,
                class.raw_isl_token_queue_limit_per_worker,
            ),
            (
                keys::CACHED_LIMIT,
                class.cached_token_queue_limit_per_worker,
            ),
            (keys::TIMEOUT, class.queue_timeout_ms),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                writeln!(text, "    {key}: {number}")?;
            }
        }
        Ok(())
    }
}
