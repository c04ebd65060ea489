//! The arbitration `exact`: shares hold whatever blocks in between (S6.1 to S6.3).

use super::{NONE, Node, Pick, Ring, can_pay};

/// Picks the class that dispatches next; `None` is a dry selection, which changes nothing. At most
/// two passes over the ring and two linear scans (S6.7).
#[inline]
pub(crate) fn pick(ring: &mut Ring) -> Pick {
    if ring.candidates == 0 {
        return None;
    }
    if ring.open == 1 {
        // One burst that goes on: steps 1 and 2 come to this.
        let front = &ring.nodes[ring.front as usize];
        if front.open && front.cost > 0 && can_pay(front) {
            return Some(ring.front);
        }
    }
    pick_next(ring)
}

/// The same where no burst goes on.
#[inline(never)]
fn pick_next(ring: &mut Ring) -> Pick {
    end_unaffordable_turns(ring);
    if ring.candidates == ring.len && ring.open == 0 && ring.iter().all(|c| !can_open(ring, c)) {
        return Some(fast_forward_all(ring));
    }
    if let Some(class) = pass(ring) {
        return Some(class);
    }
    let rounds = ring.rounds();
    ring.grant_all(rounds - 1);
    let class = pass(ring);
    debug_assert!(class.is_some(), "after the fast-forward one class can pay");
    class
}

/// Step 1. Turns stay open while a class has no candidate, so several may be open at once.
#[inline]
fn end_unaffordable_turns(ring: &mut Ring) {
    let mut open = ring.open;
    let mut class = ring.front;
    while open > 0 {
        let node = &ring.nodes[class as usize];
        let next = node.next;
        if node.open {
            open -= 1;
            if node.cost > 0 && !can_pay(node) {
                ring.end_turn(class);
            }
        }
        class = next;
    }
}

/// Steps 2 and 4.
#[inline]
fn pass(ring: &mut Ring) -> Pick {
    let mut class = ring.front;
    for _ in 0..ring.len {
        let node = &mut ring.nodes[class as usize];
        let next = node.next;
        if node.cost > 0 {
            let was_open = node.open;
            if !was_open {
                node.grant();
            }
            node.open = can_pay(node);
            ring.open = ring.open + u16::from(node.open) - u16::from(was_open);
            if node.open {
                return Some(class);
            }
            ring.move_back(class);
        }
        class = next;
    }
    None
}

/// Whether a class could pay its candidate if its turn opened.
fn can_open(ring: &Ring, class: u16) -> bool {
    let node = &ring.nodes[class as usize];
    u64::from(node.cost) <= node.deficit.saturating_add(node.quantum)
}

/// Steps 2 to 4 where every class has a candidate, no turn is open, and no class can pay with one
/// quantum. Then the pass of step 2 grants each class a quantum and leaves the ring as it was, and
/// the classes that the pass of step 4 finds unable go to its end in their order: a rotation.
fn fast_forward_all(ring: &mut Ring) -> u16 {
    let after_pass = |node: &Node| u64::from(node.cost) - node.deficit - node.quantum;
    let rounds = ring
        .iter()
        .map(|class| &ring.nodes[class as usize])
        .map(|node| after_pass(node).div_ceil(node.quantum))
        .min()
        .unwrap_or(1);
    let mut winner = NONE;
    let mut class = ring.front;
    for _ in 0..ring.len {
        let node = &mut ring.nodes[class as usize];
        // The quantum of step 2 and the `rounds - 1` of step 3.
        node.deficit += node.quantum * rounds;
        node.remembered = node.slot;
        if winner == NONE {
            // The quantum of step 4.
            node.deficit += node.quantum;
            if can_pay(node) {
                winner = class;
            }
        }
        class = node.next;
    }
    debug_assert_ne!(winner, NONE, "after the fast-forward one class can pay");
    ring.front = winner;
    ring.nodes[winner as usize].open = true;
    ring.open += 1;
    winner
}
