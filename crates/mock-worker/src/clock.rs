//! The model's time on the real clock.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_arbiter::Nanos;

/// Beyond any test, and far from where an [`Instant`] overflows.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 10);

/// Translates between the model's nanoseconds, which begin with the worker, and real ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// Nanoseconds of the model in a real one.
    speed: f64,
}

impl Clock {
    pub(crate) fn new(speed: f64) -> Self {
        Self {
            origin: Instant::now(),
            speed,
        }
    }

    /// The model's time now.
    pub(crate) fn now(&self) -> Nanos {
        let real = self.origin.elapsed().as_nanos();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float saturates, and is exact to the nanosecond for a hundred days"
        )]
        Nanos((real as f64 * self.speed) as u64)
    }

    /// When a time of the model is reached; at most ten years from the beginning.
    pub(crate) fn at(&self, model: Nanos) -> Instant {
        let real = model.0 as f64 / self.speed;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float saturates"
        )]
        let real = Duration::from_nanos(real.ceil() as u64);
        self.origin + real.min(FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_divided_by_the_speed() {
        let clock = Clock::new(4.0);
        let real = clock.at(Nanos::from_millis(100)) - clock.origin;
        assert_eq!(real, Duration::from_millis(25));
        assert!(clock.now() < Nanos::from_millis(60_000));
    }

    #[test]
    fn no_time_is_out_of_reach() {
        for speed in [f64::MIN_POSITIVE, 1.0, f64::MAX] {
            let clock = Clock::new(speed);
            assert!(clock.at(Nanos::MAX) - clock.origin <= FAR);
            let _ = clock.now();
        }
    }
}
