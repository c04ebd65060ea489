//! The arbitration `exact`: shares hold whatever blocks in between (S6.1 to S6.3).

use super::{NONE, Pick, Ring, can_pay};

/// Picks the class that dispatches next; `None` is a dry selection, which changes nothing. At most
/// two passes over the ring and two linear scans (S6.7).
#[inline]
pub(crate) fn pick(ring: &mut Ring) -> Pick {
    if ring.candidates == 0 {
        return None;
    }
    if ring.open == 1 {
        let front = &mut ring.nodes[ring.front as usize];
        if front.open && front.cost > 0 {
            // One burst that goes on, or else is over: steps 1 and 2 come to this.
            if can_pay(front) {
                return Some(ring.front);
            }
            front.open = false;
            ring.front = front.next;
            ring.open = 0;
        }
    }
    if ring.open == 0 && ring.candidates == ring.len {
        return Some(pick_among_all(ring));
    }
    pick_next(ring)
}

/// Steps 2 to 4 where every class has a candidate and no turn is open: whoever cannot pay goes to the
/// end, so that the ring only turns.
#[inline]
fn pick_among_all(ring: &mut Ring) -> u16 {
    let mut class = ring.front;
    for _ in 0..ring.len {
        let node = &mut ring.nodes[class as usize];
        node.grant();
        if can_pay(node) {
            node.open = true;
            ring.open = 1;
            ring.front = class;
            return class;
        }
        class = node.next;
    }
    forward_all(ring)
}

/// The same where nothing is known beforehand.
#[inline(never)]
fn pick_next(ring: &mut Ring) -> Pick {
    end_unaffordable_turns(ring);
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
            if !node.open {
                node.grant();
                if can_pay(node) {
                    node.open = true;
                    ring.open += 1;
                    return Some(class);
                }
            } else if can_pay(node) {
                return Some(class);
            } else {
                node.open = false;
                ring.open -= 1;
            }
            if ring.front == class {
                ring.front = next;
            } else {
                ring.move_back(class);
            }
        }
        class = next;
    }
    None
}

/// Steps 3 and 4 where every class has a candidate and none could pay in step 2, which left the ring as
/// it was. The classes that the pass of step 4 finds unable go to its end in their order: a rotation.
fn forward_all(ring: &mut Ring) -> u16 {
    let more = ring.rounds() - 1;
    let mut winner = NONE;
    let mut class = ring.front;
    for _ in 0..ring.len {
        let node = &mut ring.nodes[class as usize];
        node.deficit += node.quantum * more;
        if winner == NONE {
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
    ring.open = 1;
    winner
}
