//! The arbitration `exact`: shares hold whatever blocks in between (S6.1 to S6.3).

use super::{NONE, Pick, Ring, can_pay};

/// Picks the class that dispatches next; `None` is a dry selection, which changes nothing. At most
/// two passes over the ring and two linear scans (S6.7).
///
/// `on_open` hears of every turn that opens, with the class.
pub(crate) fn pick(ring: &mut Ring, mut on_open: impl FnMut(u16)) -> Pick {
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
    end_unaffordable_turns(ring);
    if let Some(class) = pass(ring, &mut on_open) {
        return Some(class);
    }
    let rounds = ring.rounds();
    ring.grant_all(rounds - 1);
    let class = pass(ring, &mut on_open);
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
fn pass(ring: &mut Ring, on_open: &mut impl FnMut(u16)) -> Pick {
    let mut class = ring.front;
    for _ in 0..ring.len {
        let node = &ring.nodes[class as usize];
        let next = node.next;
        if node.cost > 0 {
            if !node.open {
                ring.open(class);
                on_open(class);
            }
            if can_pay(&ring.nodes[class as usize]) {
                return Some(class);
            }
            ring.end_turn(class);
        }
        if next == NONE {
            break;
        }
        class = next;
    }
    None
}
