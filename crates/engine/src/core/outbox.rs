//! What found no room in an egress ring and waits for it, in order.

use crate::wire::Parcel;

const NONE: u32 = u32::MAX;

/// Parcels that wait, a queue for each egress shard, over one pool of nodes.
///
/// A live request has at most one parcel on its way, so the slots bound the pool, and it does not grow.
/// Two things are not bounded by them, and make it grow where receivers stay away: payloads of stale
/// requeues on their way back, which the embedder brought itself, and dispatches that were released
/// before they were handed out.
#[derive(Debug)]
pub(super) struct Outbox<P> {
    nodes: Vec<Node<P>>,
    free: u32,
    queues: Box<[Queue]>,
}

#[derive(Debug)]
struct Node<P> {
    parcel: Option<Parcel<P>>,
    /// With the parcel, its request's slot goes back.
    frees: bool,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
    len: usize,
}

impl<P> Outbox<P> {
    pub(super) fn new(shards: usize, slots: usize) -> Self {
        let queue = Queue {
            first: NONE,
            last: NONE,
            len: 0,
        };
        Self {
            nodes: Vec::with_capacity(slots),
            free: NONE,
            queues: vec![queue; shards].into(),
        }
    }

    pub(super) fn len(&self, shard: usize) -> usize {
        self.queues[shard].len
    }

    pub(super) fn push(&mut self, shard: usize, parcel: Parcel<P>, frees: bool) {
        let node = Node {
            parcel: Some(parcel),
            frees,
            next: NONE,
        };
        let at = self.free;
        let at = if at == NONE {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 parcels fit the memory")
        } else {
            self.free = self.nodes[at as usize].next;
            self.nodes[at as usize] = node;
            at
        };
        let queue = &mut self.queues[shard];
        let last = std::mem::replace(&mut queue.last, at);
        queue.len += 1;
        if last == NONE {
            queue.first = at;
        } else {
            self.nodes[last as usize].next = at;
        }
    }

    pub(super) fn pop(&mut self, shard: usize) -> Option<(Parcel<P>, bool)> {
        let queue = &mut self.queues[shard];
        let at = queue.first;
        if at == NONE {
            return None;
        }
        let node = &mut self.nodes[at as usize];
        queue.first = std::mem::replace(&mut node.next, self.free);
        queue.len -= 1;
        if queue.first == NONE {
            queue.last = NONE;
        }
        self.free = at;
        node.parcel.take().map(|parcel| (parcel, node.frees))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_arbiter::{ClassIndex, Outcome};

    use super::*;
    use crate::ticket::{Place, Ticket};

    fn ended(payload: u32) -> Parcel<u32> {
        let place = Place(payload);
        Parcel::Ended {
            ticket: Ticket {
                place,
                generation: 0,
            },
            class: ClassIndex(0),
            outcome: Outcome::Cancelled,
            payload,
        }
    }

    #[test]
    fn each_queue_keeps_its_order_and_nodes_are_used_again() {
        let mut outbox = Outbox::new(2, 4);
        for round in 0..100 {
            outbox.push(0, ended(round), true);
            outbox.push(1, ended(round + 1_000), true);
            outbox.push(0, ended(round + 1), true);
            assert_eq!((outbox.len(0), outbox.len(1)), (2, 1));
            let mut pop = |shard| {
                outbox
                    .pop(shard)
                    .map(|(parcel, _)| parcel.open().into_payload())
            };
            assert_eq!((pop(0), pop(1)), (Some(round), Some(round + 1_000)));
            assert_eq!((pop(0), pop(0)), (Some(round + 1), None));
            assert_eq!(pop(1), None);
        }
        assert_eq!(outbox.nodes.len(), 3);
    }
}
