//! Every deliberate fault shows.

use super::{Mutation, Run, class, profile, single};
use crate::protocol::Machine;
use tollgate_policy::{OrderPolicy, Profile};

/// The policy under which [`script`] brings out a fault.
fn policy(mutation: Mutation) -> Profile {
    match mutation {
        Mutation::GrantSkipped => profile(vec![class("a", 10), class("b", 10)]),
        Mutation::StaleLaneHead => {
            let mut wspt = class("a", 100);
            wspt.order = OrderPolicy::Wspt;
            profile(vec![wspt])
        }
        _ => profile(vec![single("a", 10), single("b", 10)]),
    }
}

/// A short script that brings out one fault.
const fn script(mutation: Mutation) -> &'static [&'static str] {
    match mutation {
        Mutation::CreditOnDry => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"shut","worker":[1,0]}"#,
            r#"{"op":"submit","id":"x","isl":5}"#,
            r#"{"op":"arbitrate"}"#,
        ],
        Mutation::FastForwardAllRounds => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"submit","id":"x","isl":95}"#,
            r#"{"op":"submit","id":"y","isl":95}"#,
            r#"{"op":"arbitrate","max":1}"#,
        ],
        Mutation::GrantSkipped => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"submit","id":"x0","isl":2}"#,
            r#"{"op":"submit","id":"x1","isl":9}"#,
            r#"{"op":"submit","id":"x2","isl":2}"#,
            r#"{"op":"submit","id":"y0","family":"b","isl":9}"#,
            r#"{"op":"arbitrate","max":2}"#,
            r#"{"op":"submit","id":"x3","isl":1,"strict_priority":1}"#,
            r#"{"op":"arbitrate","max":1}"#,
        ],
        Mutation::TieBreakReversed => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"submit","id":"x","isl":5}"#,
            r#"{"op":"submit","id":"y","isl":5}"#,
            r#"{"op":"arbitrate","max":1}"#,
        ],
        Mutation::CountLeakedOnExpiry => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"submit","id":"x","isl":5,"deadline_us":1}"#,
            r#"{"op":"advance","us":1}"#,
        ],
        Mutation::TurnKeptAfterRequeue => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"submit","id":"x","isl":5}"#,
            r#"{"op":"submit","id":"y","isl":5}"#,
            r#"{"op":"arbitrate","max":1}"#,
            r#"{"op":"requeue","id":"x"}"#,
        ],
        Mutation::StaleLaneHead => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"submit","id":"x","isl":9}"#,
            r#"{"op":"submit","id":"p","isl":5,"pin":[1,0]}"#,
            r#"{"op":"submit","id":"y","isl":1}"#,
            r#"{"op":"arbitrate","max":1}"#,
        ],
        Mutation::PinsTakeNoRoom => &[
            r#"{"op":"worker","id":1}"#,
            r#"{"op":"worker","id":2}"#,
            r#"{"op":"submit","id":"x","isl":9,"pin":[1,0]}"#,
            r#"{"op":"submit","id":"y","isl":9,"pin":[2,0]}"#,
            r#"{"op":"arbitrate","max":2}"#,
        ],
    }
}

#[test]
fn every_mutation_shows_in_its_script() {
    for mutation in Mutation::ALL {
        let (profile, lines) = (policy(mutation), script(mutation));
        let (mut honest, mut faulty) = (Run::new(&profile), Run::mutated(&profile, mutation));
        for run in [&mut honest, &mut faulty] {
            // More than any other script uses up.
            let room = if mutation == Mutation::PinsTakeNoRoom {
                1
            } else {
                9
            };
            run.oracle.set_egress_room(0, room);
        }
        honest.ops(lines);
        faulty.ops(lines);
        assert!(
            honest.events != faulty.events || honest.state() != faulty.state(),
            "{mutation:?} does not show"
        );
    }
}
