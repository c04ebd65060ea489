//! What the requests of a scenario are called.

use std::collections::BTreeMap;

use tollgate_arbiter::{Stale, Ticket};

/// Ids, tickets and attempts. A request's number in here is the arbiter's payload.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    requests: Vec<Named>,
    by_id: BTreeMap<String, u32>,
    /// The last request in each slot.
    by_slot: Vec<u32>,
    unknown: u64,
}

#[derive(Clone, Debug)]
struct Named {
    id: String,
    ticket: Ticket,
    /// The latest attempt; 0 until the first dispatch, and never anybody's attempt.
    attempt: u8,
}

impl Names {
    /// Takes a new request in; its ticket is in use from now on.
    pub(super) fn add(&mut self, id: &str, ticket: Ticket) -> u32 {
        let number = u32::try_from(self.requests.len()).expect("4 billion ids fit no memory");
        self.requests.push(Named {
            id: id.to_owned(),
            ticket,
            attempt: 0,
        });
        self.by_id.insert(id.to_owned(), number);
        let slot = ticket.slot.0 as usize;
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        self.by_slot[slot] = number;
        number
    }

    /// The request that is called `id`. One that was never taken in is counted and stale; one that
    /// has ended is found, and its ticket is stale.
    pub(super) fn find(&mut self, id: &str) -> Result<u32, Stale> {
        let found = self.by_id.get(id).copied();
        self.unknown += u64::from(found.is_none());
        found.ok_or(Stale)
    }

    /// How often [`Names::find`] found nothing: the arbiter did not hear of these.
    pub(super) const fn unknown(&self) -> u64 {
        self.unknown
    }

    pub(super) fn id(&self, request: u32) -> String {
        self.named(request).id.clone()
    }

    /// The number of a live request.
    pub(super) fn number_of_ticket(&self, ticket: Ticket) -> u32 {
        let number = self.by_slot.get(ticket.slot.0 as usize);
        number.copied().unwrap_or(0)
    }

    /// Whether nobody is called so yet, and its slot is one of so many.
    pub(super) fn is_free(&self, id: &str, ticket: Ticket, slots: u32) -> bool {
        ticket.slot.0 < slots && !self.by_id.contains_key(id)
    }

    /// The id of a live request.
    pub(super) fn id_of_ticket(&self, ticket: Ticket) -> String {
        self.id(self.by_slot[ticket.slot.0 as usize])
    }

    pub(super) fn ticket(&self, request: u32) -> Ticket {
        self.named(request).ticket
    }

    /// The attempt that is meant: the one asked for, or the latest. What no attempt can be is 0, so
    /// that the arbiter finds it as stale as it is.
    pub(super) fn attempt(&self, request: u32, asked: Option<u32>) -> u8 {
        asked.map_or(self.named(request).attempt, |asked| {
            u8::try_from(asked).unwrap_or(0)
        })
    }

    pub(super) fn set_attempt(&mut self, request: u32, attempt: u8) {
        self.requests[request as usize].attempt = attempt;
    }

    fn named(&self, request: u32) -> &Named {
        &self.requests[request as usize]
    }
}
