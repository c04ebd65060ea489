//! The capture itself: records in one buffer that was allocated before it began.
//!
//! A record is a few words. The first one's lowest byte is its [`Kind`], and the rest of that word holds
//! what fits; variable parts, which few requests have, follow word by word. A record that does not fit
//! ends the capture, and none is ever written in part.

use std::sync::Arc;

use tollgate_arbiter::{
    Capacities, Checkpoint, ClassIndex, CostSnapshot, Endpoint, Event, Nanos, Outcome, Request,
    SlotIndex, Ticket, TurnBudget, WorkerId,
};
use tollgate_policy::Profile;

use crate::ModelIndex;
use crate::control::Command;
use crate::ticket::PlaceMap;

/// How many reloads a capture may hold.
const RELOADS_MAX: usize = 4_096;

macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        /// What a record is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Kind {
            $($kind),+
        }

        impl Kind {
            const ALL: &'static [Self] = &[$(Self::$kind),+];
        }
    };
}

kinds! {
    Time, Intake, Cancel, PrefillDone, Complete, Requeue, Turn, Room, Hold, Abandon, Drain, Stop,
    Worker, RemoveWorker, Load, Overloaded, Available, Taints, Reload, Dispatched, Ended, Requeued,
}

impl Kind {
    pub(super) const fn of(word: u64) -> Self {
        Self::ALL[(word & 0xff) as usize]
    }

    /// The first word of a record, with what stands above the kind.
    const fn with(self, rest: u64) -> u64 {
        rest << 8 | self as u64
    }
}

pub(super) const HAS_PIN: u64 = 1;
pub(super) const HAS_DEADLINE: u64 = 1 << 1;
pub(super) const HAS_JUMP: u64 = 1 << 2;
pub(super) const MAY_WAIT: u64 = 1 << 3;
pub(super) const HAS_ALLOW: u64 = 1 << 4;

/// Where a capture began.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) model: ModelIndex,
    pub(crate) places: PlaceMap,
    pub(crate) profile: Arc<Profile>,
    pub(crate) capacities: Capacities,
    pub(crate) checkpoint: Checkpoint,
    /// How long the checkpoint held the core.
    pub(crate) pause: Nanos,
}

/// A capture that runs.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    words: Box<[u64]>,
    len: usize,
    records: u64,
    is_full: bool,
    /// The arbiter's time, as far as it is recorded.
    time: Nanos,
    start: Option<Box<Start>>,
    /// The policies of reloads, in order.
    policies: Vec<Arc<Profile>>,
}

impl Recorder {
    /// A buffer of so many bytes, its pages touched; none where there is not so much memory.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let mut words = Vec::new();
        words.try_reserve_exact(bytes / 8).ok()?;
        // Not zeros: those may come from the system as pages that nobody has touched.
        words.resize(bytes / 8, 1);
        Some(Self {
            words: words.into_boxed_slice(),
            len: 0,
            records: 0,
            is_full: false,
            time: Nanos(0),
            start: None,
            policies: Vec::with_capacity(RELOADS_MAX),
        })
    }

    pub(crate) fn begin(&mut self, start: Box<Start>) {
        self.time = start.checkpoint.now;
        self.start = Some(start);
    }

    pub(super) fn start(&self) -> &Start {
        self.start
            .as_ref()
            .expect("a capture has begun before it ends")
    }

    pub(super) fn model(&self) -> ModelIndex {
        self.start().model
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.len]
    }

    pub(super) fn policies(&self) -> &[Arc<Profile>] {
        &self.policies
    }

    pub(super) const fn records(&self) -> u64 {
        self.records
    }

    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Room for a record of so many words; none ends the capture.
    #[inline(always)]
    fn room(&mut self, count: usize) -> Option<&mut [u64]> {
        if self.is_full {
            return None;
        }
        let Some(room) = self.words.get_mut(self.len..self.len + count) else {
            self.is_full = true;
            return None;
        };
        self.len += count;
        self.records += 1;
        Some(room)
    }

    #[inline(always)]
    fn put<const N: usize>(&mut self, words: [u64; N]) {
        if self.is_full {
            return;
        }
        // An array, so that its words are stored one by one: most records are two or three.
        let room = self.words.get_mut(self.len..);
        match room.and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = words;
                self.len += N;
                self.records += 1;
            }
            None => self.is_full = true,
        }
    }

    /// The arbiter's time is this, whatever is recorded next.
    #[inline]
    pub(crate) fn at(&mut self, now: Nanos) {
        if now != self.time {
            self.time = now;
            self.put([Kind::Time.with(0), now.0]);
        }
    }

    /// A request is submitted; `now` is the arbiter's time.
    #[inline]
    pub(crate) fn intake(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        class: u16,
        snapshot: CostSnapshot,
        request: &Request<'_>,
    ) {
        // A stamp sets the time as well.
        if now == request.submitted_at {
            self.time = now;
        } else {
            self.at(now);
        }
        let has_jump = request.priority_jump.to_bits() != 0;
        let flags = (HAS_PIN * u64::from(request.pin.is_some()))
            | (HAS_DEADLINE * u64::from(request.deadline.is_some()))
            | (HAS_JUMP * u64::from(has_jump))
            | (MAY_WAIT * u64::from(request.may_wait))
            | (HAS_ALLOW * u64::from(request.allow.is_some()));
        let head = flags | u64::from(class) << 8;
        let body = [
            word_of(ticket),
            request.submitted_at.0,
            pair(snapshot.raw, snapshot.cached),
            u64::from(request.strict_priority),
        ];
        let has_parts = !request.hints.is_empty()
            || request.allow.is_some()
            || !request.require_taints.is_empty();
        let [a, b, c, d] = body;
        let head_alone = Kind::Intake.with(head);
        // Nearly all are of the first two forms.
        match (flags & !MAY_WAIT, request.pin, has_parts) {
            (0, _, false) => self.put([head_alone, a, b, c, d]),
            (HAS_PIN, Some(pin), false) => {
                self.put([head_alone, a, b, c, d, pin.worker.0, pin.rank.into()]);
            }
            _ => self.intake_extended(head, body, request),
        }
    }

    fn intake_extended(&mut self, head: u64, body: [u64; 4], request: &Request<'_>) {
        let allow = request.allow.unwrap_or_default();
        let (hints, taints) = (request.hints, request.require_taints);
        let head = head
            | (hints.len() as u64) << 24
            | (allow.len() as u64) << 32
            | (taints.len() as u64) << 48;
        let jump = request.priority_jump.to_bits();
        let count = 5
            + 2 * usize::from(request.pin.is_some())
            + usize::from(request.deadline.is_some())
            + usize::from(jump != 0)
            + 2 * hints.len()
            + allow.len()
            + taints.iter().map(|name| words_of_text(name)).sum::<usize>();
        let Some(room) = self.room(count) else { return };
        let mut room = Filling { room, at: 0 };
        room.put(Kind::Intake.with(head));
        body.into_iter().for_each(|word| room.put(word));
        if let Some(pin) = request.pin {
            room.endpoint(pin);
        }
        if let Some(deadline) = request.deadline {
            room.put(deadline.0);
        }
        if jump != 0 {
            room.put(jump);
        }
        for hint in hints {
            room.put(hint.endpoint.worker.0);
            room.put(pair(hint.endpoint.rank, hint.cached));
        }
        allow.iter().for_each(|worker| room.put(worker.0));
        taints.iter().for_each(|name| room.text(name));
    }

    #[inline]
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.put([Kind::Cancel.with(0), word_of(ticket)]);
    }

    #[inline]
    pub(crate) fn prefill_done(&mut self, ticket: Ticket, attempt: u8) {
        self.put([Kind::PrefillDone.with(attempt.into()), word_of(ticket)]);
    }

    #[inline]
    pub(crate) fn complete(&mut self, ticket: Ticket, attempt: u8) {
        self.put([Kind::Complete.with(attempt.into()), word_of(ticket)]);
    }

    pub(crate) fn requeue(&mut self, ticket: Ticket, attempt: u8) {
        self.put([Kind::Requeue.with(attempt.into()), word_of(ticket)]);
    }

    #[inline]
    pub(crate) fn turn(&mut self, budget: TurnBudget) {
        self.put([Kind::Turn.with(0), budget.dispatches, budget.removals]);
    }

    #[inline]
    pub(crate) fn room_of_group(&mut self, group: u16, room: u32) {
        self.put([Kind::Room.with(u64::from(room) << 16 | u64::from(group))]);
    }

    pub(crate) fn hold(&mut self, on: bool) {
        self.put([Kind::Hold.with(on.into())]);
    }

    pub(crate) fn abandon(&mut self, group: u16, from: SlotIndex, budget: u32) {
        self.put([Kind::Abandon.with(group.into()), pair(from.0, budget)]);
    }

    pub(crate) fn drain(&mut self, drain: Nanos) {
        self.put([Kind::Drain.with(0), drain.0]);
    }

    /// What is left is ended at once.
    pub(crate) fn stop(&mut self) {
        self.put([Kind::Stop.with(0)]);
    }

    pub(crate) fn reload(&mut self, profile: &Arc<Profile>) {
        let index = self.policies.len();
        if index == RELOADS_MAX {
            self.is_full = true;
        } else if let Some(room) = self.room(1) {
            room[0] = Kind::Reload.with(index as u64);
            self.policies.push(Arc::clone(profile));
        }
    }

    /// A command that took effect; those that no arbiter hears of, and reloads, are left out.
    pub(crate) fn command(&mut self, command: &Command) {
        match command {
            Command::UpsertWorker { worker, .. } => {
                let flags = u64::from(worker.overloaded)
                    | u64::from(worker.available) << 1
                    | u64::from(worker.max_batched_tokens.is_some()) << 2;
                let words = [
                    worker.id.0,
                    pair(worker.first_rank, worker.ranks),
                    worker.max_batched_tokens.unwrap_or(0),
                ];
                self.named(Kind::Worker.with(flags), &words, &worker.taints);
            }
            Command::RemoveWorker { id, .. } => self.put([Kind::RemoveWorker.with(0), id.0]),
            Command::SetLoad {
                endpoint, tokens, ..
            } => {
                let rank = u64::from(endpoint.rank);
                self.put([Kind::Load.with(rank), endpoint.worker.0, *tokens]);
            }
            Command::SetOverloaded { id, overloaded, .. } => {
                self.put([Kind::Overloaded.with((*overloaded).into()), id.0]);
            }
            Command::SetAvailable { id, available, .. } => {
                self.put([Kind::Available.with((*available).into()), id.0]);
            }
            Command::SetTaints { id, taints, .. } => {
                self.named(Kind::Taints.with(0), &[id.0], taints);
            }
            Command::Reload { .. }
            | Command::Stop { .. }
            | Command::Snapshot { .. }
            | Command::StartJournal { .. }
            | Command::TakeJournal { .. } => {}
        }
    }

    fn named(&mut self, head: u64, words: &[u64], names: &[Box<str>]) {
        let texts = names.iter().map(|name| words_of_text(name)).sum::<usize>();
        let Some(room) = self.room(2 + words.len() + texts) else {
            return;
        };
        let mut room = Filling { room, at: 0 };
        room.put(head);
        words.iter().for_each(|&word| room.put(word));
        room.put(names.len() as u64);
        names.iter().for_each(|name| room.text(name));
    }

    /// What an arbiter decided.
    #[inline]
    pub(crate) fn event<P>(&mut self, event: &Event<P>) {
        match event {
            Event::Dispatched(dispatch) => {
                let Endpoint { worker, rank } = dispatch.endpoint;
                let head = u64::from(dispatch.attempt) | u64::from(rank) << 8;
                self.put([
                    Kind::Dispatched.with(head),
                    word_of(dispatch.ticket),
                    worker.0,
                    dispatch.deficit,
                ]);
            }
            Event::Ended {
                ticket, outcome, ..
            } => self.ended(*ticket, *outcome),
            Event::Requeued { ticket, .. } => {
                self.put([Kind::Requeued.with(0), word_of(*ticket)]);
            }
            Event::Queued { .. } => {}
        }
    }

    fn ended(&mut self, ticket: Ticket, outcome: Outcome) {
        let ticket = word_of(ticket);
        let (code, detail) = match outcome {
            Outcome::Rejected(rejection) => {
                let head = u64::from(rejection.kind as u8) << 8;
                return self.put([
                    Kind::Ended.with(head),
                    ticket,
                    rejection.current,
                    rejection.limit,
                    rejection.workers,
                ]);
            }
            Outcome::Expired => (1, 0),
            Outcome::Cancelled => (2, 0),
            Outcome::Failed(reason) => (3, reason as u8),
            Outcome::ShuttingDown => (4, 0),
        };
        self.put([Kind::Ended.with(u64::from(detail) << 8 | code), ticket]);
    }
}

/// A record that is being written.
struct Filling<'a> {
    room: &'a mut [u64],
    at: usize,
}

impl Filling<'_> {
    fn put(&mut self, word: u64) {
        self.room[self.at] = word;
        self.at += 1;
    }

    fn endpoint(&mut self, endpoint: Endpoint) {
        self.put(endpoint.worker.0);
        self.put(endpoint.rank.into());
    }

    fn text(&mut self, text: &str) {
        self.put(text.len() as u64);
        for bytes in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.put(u64::from_le_bytes(word));
        }
    }
}

const fn words_of_text(text: &str) -> usize {
    1 + text.len().div_ceil(8)
}

const fn pair(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

const fn word_of(ticket: Ticket) -> u64 {
    pair(ticket.slot.0, ticket.generation)
}

/// Reads records back.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) words: std::slice::Iter<'a, u64>,
}

impl Reader<'_> {
    pub(super) fn word(&mut self) -> u64 {
        *self.words.next().expect("no record is written in part")
    }

    pub(super) fn pair(&mut self) -> (u32, u32) {
        halves(self.word())
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        let (slot, generation) = self.pair();
        Ticket {
            slot: SlotIndex(slot),
            generation,
        }
    }

    pub(super) fn endpoint(&mut self) -> Endpoint {
        let worker = WorkerId(self.word());
        let rank = halves(self.word()).1;
        Endpoint { worker, rank }
    }

    pub(super) fn text(&mut self) -> String {
        let len = usize::try_from(self.word()).expect("it was a length");
        let words = (0..len.div_ceil(8)).map(|_| self.word().to_le_bytes());
        let mut bytes: Vec<u8> = words.flatten().collect();
        bytes.truncate(len);
        String::from_utf8(bytes).expect("it was a text")
    }

    pub(super) fn texts(&mut self, count: u64) -> Vec<String> {
        (0..count).map(|_| self.text()).collect()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
pub(super) const fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// The class of an intake's head.
#[expect(clippy::cast_possible_truncation, reason = "16 bits of a word")]
pub(super) const fn class_of(head: u64) -> ClassIndex {
    ClassIndex((head >> 16) as u16)
}
