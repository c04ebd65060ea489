//! What became of a replay's requests, class by class.

use tollgate_arbiter::{ClassIndex, Dispatch, Outcome};
use tollgate_policy::Profile;

use super::simulation::Observer;
use crate::report::Waits;

/// One class's part of a replay.
#[derive(Clone, Debug, Default)]
pub struct ClassTally {
    /// Its name.
    pub name: String,
    /// Uncached tokens per turn.
    pub quantum: u64,
    /// Requests whose fate was decided here.
    pub requests: u64,
    /// Requests that ran.
    pub dispatched: u64,
    /// Requests that ran to their last token.
    pub completed: u64,
    /// What the requests that ran cost, in uncached tokens.
    pub charged_tokens: u64,
    /// Refused by a limit.
    pub rejected: u64,
    /// Expired while they waited.
    pub expired: u64,
    /// Could run nowhere.
    pub failed: u64,
    /// How long those that ran had waited.
    pub waits: Waits,
    /// Tokens dispatched while this class and another were backlogged.
    pub served_tokens: u64,
    /// What its quantum entitles it to of everything dispatched in the same intervals, in tokens.
    pub entitled_tokens: f64,
    /// Requests that wait now.
    waiting: u64,
}

/// Counts outcomes and the service of backlogged classes.
///
/// A class is *backlogged* at a dispatch if it had a request waiting just before. A dispatch counts
/// for the shares if at least two classes were; each of these is then entitled to its quantum's
/// part of the sum of their quanta.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) classes: Vec<ClassTally>,
    requests: Vec<Track>,
    /// Dispatches that counted for the shares.
    pub(super) contended: u64,
}

/// What is known of one request.
#[derive(Clone, Copy, Debug, Default)]
struct Track {
    class: usize,
    waits: bool,
    ran: bool,
    /// How often its fate was reported.
    fates: u32,
}

impl Tally {
    pub(super) fn new(profile: &Profile, requests: usize) -> Self {
        let class = |class: &tollgate_policy::ClassPolicy| ClassTally {
            name: class.name.to_string(),
            quantum: class.quantum,
            ..ClassTally::default()
        };
        Self {
            classes: profile.classes().iter().map(class).collect(),
            requests: vec![Track::default(); requests],
            contended: 0,
        }
    }

    /// How many requests have no fate or more than one; 0 in a sound run.
    pub(super) fn unsettled(&self) -> usize {
        self.requests
            .iter()
            .filter(|track| track.fates != 1)
            .count()
    }

    /// Which requests ran, by number, each with its class's place.
    pub(super) fn ran(&self) -> impl Iterator<Item = (usize, usize)> {
        let ran = self
            .requests
            .iter()
            .enumerate()
            .filter(|(_, track)| track.ran);
        ran.map(|(request, track)| (request, track.class))
    }

    /// A request has its fate; its class.
    fn settle(&mut self, request: u32, class: ClassIndex) -> &mut ClassTally {
        let track = &mut self.requests[request as usize];
        let tally = &mut self.classes[usize::from(class.0)];
        tally.waiting -= u64::from(track.waits);
        tally.requests += 1;
        *track = Track {
            class: usize::from(class.0),
            waits: false,
            ran: track.ran,
            fates: track.fates + 1,
        };
        tally
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "shares are told to a hundredth of a per cent"
    )]
    fn share_out(&mut self, cost: u64, served: ClassIndex) {
        let backlogged = |class: &&mut ClassTally| class.waiting > 0;
        let count = self
            .classes
            .iter()
            .filter(|class| class.waiting > 0)
            .count();
        if count < 2 {
            return;
        }
        let quanta: f64 = self
            .classes
            .iter_mut()
            .filter(backlogged)
            .map(|class| class.quantum as f64)
            .sum();
        for class in self.classes.iter_mut().filter(backlogged) {
            class.entitled_tokens += cost as f64 * class.quantum as f64 / quanta;
        }
        self.classes[usize::from(served.0)].served_tokens += cost;
        self.contended += 1;
    }
}

impl Observer for Tally {
    fn queued(&mut self, request: u32, class: ClassIndex) {
        self.requests[request as usize].waits = true;
        self.classes[usize::from(class.0)].waiting += 1;
    }

    fn dispatched(&mut self, dispatch: &Dispatch<u32>) {
        let cost = u64::from(dispatch.snapshot.cost());
        self.share_out(cost, dispatch.class);
        self.requests[dispatch.payload as usize].ran = true;
        let class = self.settle(dispatch.payload, dispatch.class);
        class.dispatched += 1;
        class.charged_tokens += cost;
        class
            .waits
            .record(dispatch.dispatched_at.saturating_sub(dispatch.submitted_at));
    }

    fn ended(&mut self, request: u32, class: ClassIndex, outcome: Outcome) {
        let class = self.settle(request, class);
        match outcome {
            Outcome::Rejected(_) => class.rejected += 1,
            Outcome::Expired => class.expired += 1,
            Outcome::Failed(_) => class.failed += 1,
            Outcome::Cancelled | Outcome::ShuttingDown => {
                unreachable!("a replay cancels nothing and does not stop")
            }
        }
    }

    fn completed(&mut self, request: u32) {
        let class = self.requests[request as usize].class;
        self.classes[class].completed += 1;
    }
}
