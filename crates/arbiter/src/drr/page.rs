//! The arbitration `page`: the literal text of the page, for comparison (S6.8).

use super::{NONE, Pick, Ring, can_pay};

/// Picks the class that dispatches next; `None` is a dry selection.
pub(crate) fn pick(ring: &mut Ring) -> Pick {
    if ring.candidates == 0 {
        return None;
    }
    if ring.holder != NONE {
        let node = &ring.nodes[ring.holder as usize];
        if node.cost > 0 {
            if can_pay(node) {
                return Some(ring.holder);
            }
            ring.holder = NONE;
        }
    }
    visit(ring, |ring, class| {
        let node = &mut ring.nodes[class as usize];
        if !can_pay(node) {
            node.deficit = node.deficit.saturating_add(node.quantum);
        }
        can_pay(node)
    })
    .or_else(|| {
        let rounds = ring.rounds();
        ring.grant_all(rounds);
        visit(ring, |ring, class| can_pay(&ring.nodes[class as usize]))
    })
}

/// What a dispatch of `class` does to cursor and holder; its charge is made already.
pub(crate) fn dispatched(ring: &mut Ring, class: u16, empty: bool) {
    ring.cursor = ring.after(class);
    let goes_on = !empty && ring.nodes[class as usize].deficit > 0;
    ring.holder = if goes_on { class } else { NONE };
}

/// Offers each class with a candidate the turn, once around from the cursor.
fn visit(ring: &mut Ring, mut takes: impl FnMut(&mut Ring, u16) -> bool) -> Pick {
    let mut class = ring.cursor;
    for _ in 0..ring.len {
        if ring.nodes[class as usize].cost > 0 && takes(ring, class) {
            return Some(class);
        }
        class = ring.after(class);
    }
    None
}
