//! Waiting for room in the engine: first come, first served.
//!
//! A future that finds every front full asks for room and sleeps. The *usher*, whom one
//! of the couriers has, keeps those who wait in the order in which they came, a list for each model, and invites as
//! many as there is room for. Who is invited submits; a newcomer asks for room as long as anybody of its
//! model waits for some, so that nobody is overtaken by who came later.
//!
//! # Protocol
//! 1. A future draws an arrival number, writes its wish, leaves a note, and rings.
//! 2. The usher says that it wants to know of room (`RoomWord::want`), and only then looks at the
//!    fronts. Room that appears later is told: the core sets the word to *news* and rings.
//! 3. It invites while the fronts' room lasts, less what earlier invitations of the model that were not
//!    answered yet may take.
//! 4. Who is invited answers: by submitting, by going away, or by asking again under its old number where
//!    another took the room. An answer that takes no room rings, and so does the last one.
//!
//! 5. Once the engine takes no new requests, the usher turns away all that are in its lists.
//!
//! # Invariants
//! - R1. Whoever waits for room has a note on its way, or is in a list, or is invited.
//! - R2. A list with somebody in it is looked at after every arrival, every answer that rings, and all news.
//! - R3. In a list nobody stands behind a higher arrival number.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;

use arrayvec::ArrayVec;
use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;

use super::courier::{discard, wake};
use super::lobby::Lobby;
use crate::ingress::Space;
use crate::sync::doorbell::{Answer, Doorbell};
use crate::sync::room::RoomWord;

/// How many notes the usher reads, and how many it invites, in one turn.
const PER_TURN: usize = 64;
/// Nobody.
const NONE: u32 = u32::MAX;

/// What the futures tell the usher, and what they know of it.
#[derive(Debug)]
pub(super) struct RoomQueue {
    notes: ArrayQueue<Note>,
    arrivals: AtomicU64,
    models: Box<[CachePadded<Counts>]>,
    /// The last of some invitations was answered, or one without taking room.
    answered: AtomicBool,
    bells: Box<[Doorbell]>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Futures that wait for room, invited ones included.
    waiting: AtomicU32,
    /// Invitations that were not answered yet.
    invited: AtomicU32,
}

/// A note to the usher, about an entry.
#[derive(Clone, Copy, Debug)]
enum Note {
    /// It waits for room.
    Came(u32),
    /// Its future is gone.
    Went(u32),
}

impl RoomQueue {
    /// For so many entries and models; the bells are the couriers'.
    pub(super) fn new(entries: u32, models: usize, bells: Box<[Doorbell]>) -> Self {
        Self {
            // Of each entry at most one note of either kind is on its way.
            notes: ArrayQueue::new(2 * entries as usize),
            arrivals: AtomicU64::new(0),
            models: (0..models).map(|_| CachePadded::default()).collect(),
            answered: AtomicBool::new(false),
            bells,
        }
    }

    /// The next arrival number.
    pub(super) fn arrive(&self, model: usize) -> u64 {
        self.models[model].waiting.fetch_add(1, Ordering::Relaxed);
        self.arrivals.fetch_add(1, Ordering::Relaxed)
    }

    /// A future does not wait for room any more.
    pub(super) fn depart(&self, model: usize) {
        self.models[model].waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many futures of a model wait for room.
    pub(super) fn waiting(&self, model: usize) -> u32 {
        let counts = self.models.get(model);
        counts.map_or(0, |counts| counts.waiting.load(Ordering::Relaxed))
    }

    /// An entry waits for room from now on; its wish is written.
    pub(super) fn came(&self, index: u32, word: &RoomWord) {
        self.note(Note::Came(index), word);
    }

    /// An entry's future went away while it waited for room.
    pub(super) fn went(&self, index: u32, word: &RoomWord) {
        self.note(Note::Went(index), word);
    }

    fn note(&self, note: Note, word: &RoomWord) {
        // There is room for all notes of all entries, as long as somebody reads them.
        let _ = self.notes.push(note);
        self.ring(word);
    }

    /// Rings for the courier who has the usher; where that one is gone, for its heir.
    pub(super) fn ring(&self, word: &RoomWord) {
        let mut usher = word.usher();
        while self.bells[usher].ring() == Answer::Gone {
            let heir = word.usher();
            if heir == usher {
                // The last courier is gone.
                return;
            }
            usher = heir;
        }
    }

    /// An invitation was answered; whether the room was taken, or is there for another.
    pub(super) fn answer(&self, model: usize, was_taken: bool, word: &RoomWord) {
        // ORDERING: Release with the Acquire of `Usher::look`: what the answer took is seen there.
        let was_last = self.models[model].invited.fetch_sub(1, Ordering::Release) == 1;
        if was_last || !was_taken {
            // ORDERING: Release with the Acquire of `Usher::turn`.
            self.answered.store(true, Ordering::Release);
            self.ring(word);
        }
    }
}

/// Keeps those who wait for room in order, and invites them.
#[derive(Debug)]
pub(super) struct Usher {
    lists: Box<[List]>,
    links: Box<[Link]>,
    /// How many are in lists.
    count: usize,
    /// The last look was not complete.
    is_unsure: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// An entry's place in its list; the wish is what it was when it came.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    behind: u32,
    arrival: u64,
    model: u32,
    blocks: u32,
    is_listed: bool,
}

impl Usher {
    pub(super) fn new(entries: u32, models: usize) -> Self {
        let list = List {
            first: NONE,
            last: NONE,
        };
        let link = Link {
            before: NONE,
            behind: NONE,
            arrival: 0,
            model: 0,
            blocks: 0,
            is_listed: false,
        };
        Self {
            lists: vec![list; models].into(),
            links: vec![link; entries as usize].into(),
            count: 0,
            is_unsure: false,
        }
    }

    /// Another courier has it now, and looks at everything.
    pub(super) fn change_hands(&mut self) {
        self.is_unsure = true;
    }

    /// Reads some notes and looks for room where that may be of use; how much it did.
    pub(super) fn turn(&mut self, lobby: &Lobby) -> usize {
        let mut done = 0;
        let mut has_cause = std::mem::take(&mut self.is_unsure);
        while done < PER_TURN
            && let Some(note) = lobby.room.notes.pop()
        {
            has_cause = true;
            done += 1;
            match note {
                Note::Came(index) => self.insert(lobby, index),
                Note::Went(index) => {
                    self.remove(index);
                    discard(lobby.waiters.give_back(index));
                }
            }
        }
        // ORDERING: Acquire with the Release of `answer`.
        has_cause |= lobby.room.answered.swap(false, Ordering::Acquire);
        has_cause |= lobby.shared.room.has_news();
        if self.count > 0 && lobby.shared.is_closed() {
            return done + self.turn_away(lobby);
        }
        if has_cause {
            done += self.look(lobby);
        }
        done
    }

    /// Whether a turn would do something; asked before the courier sleeps.
    pub(super) fn has_work(&self, lobby: &Lobby) -> bool {
        self.is_unsure
            || !lobby.room.notes.is_empty()
            || lobby.room.answered.load(Ordering::Relaxed)
            || lobby.shared.room.has_news()
            || self.count > 0 && lobby.shared.is_closed()
    }

    /// No new requests are taken: tells some of those who wait for room; how many.
    fn turn_away(&mut self, lobby: &Lobby) -> usize {
        let mut told = 0;
        for model in 0..self.lists.len() {
            while told < PER_TURN && self.lists[model].first != NONE {
                let first = self.lists[model].first;
                self.remove(first);
                told += 1;
                if lobby.waiters.close_one(first) {
                    lobby.waiters.waker(first).into_iter().for_each(wake);
                }
            }
        }
        told
    }

    /// Invites as many as there is room for; how many.
    fn look(&mut self, lobby: &Lobby) -> usize {
        if self.count == 0 {
            lobby.shared.room.want_none();
            return 0;
        }
        lobby.shared.room.want();
        let mut wakers = ArrayVec::<Waker, PER_TURN>::new();
        let mut invited = 0;
        for model in 0..self.lists.len() {
            // ORDERING: Acquire with the Release of `answer`.
            let open = lobby.room.models[model].invited.load(Ordering::Acquire);
            if self.lists[model].first == NONE {
                continue;
            }
            let mut spaces = self.spaces(lobby, model);
            let total: usize = spaces.iter().map(Space::requests).sum();
            let end = invited + total.saturating_sub(open as usize);
            while invited < PER_TURN.min(end) {
                let first = self.lists[model].first;
                if first == NONE {
                    break;
                }
                let blocks = self.links[first as usize].blocks as usize;
                if !spaces.iter_mut().any(|space| space.take(blocks)) {
                    break;
                }
                self.remove(first);
                invited += 1;
                let counts = &lobby.room.models[model];
                counts.invited.fetch_add(1, Ordering::Relaxed);
                if lobby.waiters.invite(first) {
                    wakers.extend(lobby.waiters.waker(first));
                } else {
                    // Its future is gone, and its note is on its way.
                    lobby.room.answer(model, false, &lobby.shared.room);
                }
            }
        }
        self.is_unsure |= invited == PER_TURN;
        wakers.into_iter().for_each(wake);
        invited
    }

    /// What room the fronts have now for requests of a model.
    fn spaces(&mut self, lobby: &Lobby, model: usize) -> ArrayVec<Space, 64> {
        let mut spaces = ArrayVec::new();
        for at in 0..lobby.fronts.len() {
            match lobby.fronts.take(at) {
                Some(mut front) => spaces.push(front.shard.space(model)),
                None => self.is_unsure = true,
            }
        }
        spaces
    }

    /// Puts an entry into its list, behind all who came before it.
    fn insert(&mut self, lobby: &Lobby, index: u32) {
        let wish = lobby.waiters.wished(index);
        let model = wish.model;
        // Nearly all come last; who asks again belongs to the front.
        let List { first, last } = self.lists[model];
        let is_last = last == NONE || self.links[last as usize].arrival < wish.arrival;
        let behind = if is_last {
            NONE
        } else {
            let mut at = first;
            while self.links[at as usize].arrival < wish.arrival {
                at = self.links[at as usize].behind;
            }
            at
        };
        let before = if is_last {
            last
        } else {
            self.links[behind as usize].before
        };
        self.links[index as usize] = Link {
            before,
            behind,
            arrival: wish.arrival,
            model: u32::try_from(model).expect("models are few"),
            blocks: u32::try_from(wish.blocks).expect("blocks are few"),
            is_listed: true,
        };
        self.join(model, before, index);
        self.join(model, index, behind);
        self.count += 1;
    }

    /// Takes an entry out of its list, if it is in one.
    fn remove(&mut self, index: u32) {
        let link = self.links[index as usize];
        if !link.is_listed {
            return;
        }
        self.links[index as usize].is_listed = false;
        self.join(link.model as usize, link.before, link.behind);
        self.count -= 1;
    }

    /// Makes two neighbours; none before is the list's beginning, none behind its end.
    fn join(&mut self, model: usize, before: u32, behind: u32) {
        match before {
            NONE => self.lists[model].first = behind,
            before => self.links[before as usize].behind = behind,
        }
        match behind {
            NONE => self.lists[model].last = before,
            behind => self.links[behind as usize].before = before,
        }
    }
}
