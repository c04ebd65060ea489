//! S6.4 and S6.9: shares, and the worked values.

mod common;

use common::{Ask, World, classes, classes_and};

/// A world whose only worker takes everything at once, so that nothing ever blocks.
fn unblocked(lines: &[&str]) -> World {
    World::with_worker(&classes(lines))
}

/// Selects `count` times; the names that went.
fn go(world: &mut World, count: u64) -> String {
    assert_eq!(world.arbitrate(count).dispatched, count);
    world.order().join(" ")
}

/// Serves `count` requests, each of which completes before the next selection.
fn one_at_a_time(world: &mut World, count: usize) -> Vec<String> {
    let mut classes = Vec::new();
    for _ in 0..count {
        assert_eq!(world.run().dispatched, 1, "the one slot takes one request");
        let sent = world.sent();
        assert!(world.complete(&sent[0].name));
        classes.push(sent[0].class.clone());
    }
    classes
}

fn count(classes: &[String], name: &str) -> usize {
    classes.iter().filter(|class| *class == name).count()
}

fn premium_and_regular(premium: u64, regular: u64, threshold: u64) -> World {
    let mut world = World::with_worker(&classes(&[
        &format!("premium quantum: {premium}, prefill_busy_threshold: {threshold}"),
        &format!("regular quantum: {regular}, prefill_busy_threshold: {threshold}"),
    ]));
    world.checks = false;
    world.submit_many(320, Ask::new("p", 512).of("premium"));
    world.submit_many(320, Ask::new("r", 512).of("regular"));
    world.take();
    world
}

// S6.4.

#[test]
fn s6_4_one_slot_at_a_time_2048_to_512_gives_256_to_64() {
    let served = one_at_a_time(&mut premium_and_regular(2_048, 512, 0), 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (256, 64)
    );
}

#[test]
fn s6_4_one_slot_at_a_time_1024_to_256_gives_256_to_64() {
    let served = one_at_a_time(&mut premium_and_regular(1_024, 256, 0), 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (256, 64)
    );
}

#[test]
fn s6_4_one_slot_at_a_time_5120_to_1280_gives_258_to_62() {
    let mut world = premium_and_regular(5_120, 1_280, 0);
    let served = one_at_a_time(&mut world, 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (258, 62)
    );
    assert_eq!(world.deficits(&["premium", "regular"]), [1_024, 256]);
    assert_eq!(world.ring(), "premium* regular");
}

#[test]
fn s6_4_one_slot_at_a_time_512_to_512_gives_160_to_160() {
    let served = one_at_a_time(&mut premium_and_regular(512, 512, 0), 320);
    assert_eq!(
        (count(&served, "premium"), count(&served, "regular")),
        (160, 160)
    );
}

#[test]
fn s6_4_the_same_order_with_four_slots_as_with_one() {
    for (premium, regular) in [(2_048, 512), (1_024, 256), (5_120, 1_280), (512, 128)] {
        let one = one_at_a_time(&mut premium_and_regular(premium, regular, 0), 320);
        let mut world = premium_and_regular(premium, regular, 1_536);
        assert_eq!(world.run().dispatched, 4, "1536 is not above 1536");
        let mut four = world.sent();
        for at in 0..316 {
            let name = four[at].name.clone();
            assert!(world.complete(&name));
            assert_eq!(world.run().dispatched, 1);
            four.extend(world.sent());
        }
        let four: Vec<_> = four.into_iter().map(|sent| sent.class).collect();
        assert_eq!(one, four, "{premium}:{regular}");
    }
}

#[test]
fn s6_4_no_class_starves_beside_a_light_one_in_any_file_order() {
    let orders = ["jim", "jmi", "ijm", "imj", "mji", "mij"];
    for order in orders {
        let lines: Vec<String> = order
            .chars()
            .map(|class| match class {
                'i' => "i quantum: 400, prefill_busy_threshold: 0".to_owned(),
                other => format!("{other} quantum: 100, prefill_busy_threshold: 0"),
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut world = World::new(&classes(&lines));
        world.checks = false;
        world.worker(1);
        world.worker(2);
        world.submit_many(600, Ask::new("i", 100).of("i").allow(&[1]));
        world.submit_many(600, Ask::new("j", 100).of("j").allow(&[1]));
        let (mut i, mut j) = (0, 0);
        for at in 0..600 {
            // The light class is served between two slots of the others, on its idle worker.
            world.submit(Ask::new(&format!("m{at}"), 100).of("m").pin(2, 0));
            world.run();
            for sent in world.sent() {
                i += usize::from(sent.class == "i");
                j += usize::from(sent.class == "j");
                assert!(world.complete(&sent.name));
            }
        }
        assert_eq!((j, i), (120, 480), "file order {order}");
    }
}

// S6.9.

#[test]
fn s6_9_quantum_10_costs_3_leave_7_4_1_then_the_ring_moves_on() {
    let mut world = unblocked(&["a quantum: 10", "b quantum: 10"]);
    world.submit_many(4, Ask::new("a", 3).of("a"));
    world.submit_many(4, Ask::new("b", 3).of("b"));
    world.take();
    assert_eq!(world.arbitrate(4).dispatched, 4);
    let sent = world.sent();
    let got: Vec<_> = sent
        .iter()
        .map(|sent| (sent.name.as_str(), sent.deficit))
        .collect();
    assert_eq!(got, [("a0", 7), ("a1", 4), ("a2", 1), ("b0", 7)]);
}

#[test]
fn s6_9_the_page_example_1000_of_7000_and_2000_of_9000() {
    let mut world = unblocked(&["standard quantum: 1000", "latency quantum: 2000"]);
    world.submit_many(2, Ask::new("s", 7_000).of("standard"));
    world.submit_many(2, Ask::new("l", 9_000).of("latency"));
    assert_eq!(go(&mut world, 1), "l0");
    assert_eq!(world.deficits(&["standard", "latency"]), [5_000, 1_000]);
}

#[test]
fn s6_9_no_second_grant_1000_of_6000_and_2000_of_9000() {
    let mut world = unblocked(&["S quantum: 1000", "L quantum: 2000"]);
    world.submit_many(2, Ask::new("s", 6_000).of("S"));
    world.submit_many(2, Ask::new("l", 9_000).of("L"));
    assert_eq!(go(&mut world, 2), "l0 s0");
    assert_eq!(world.deficits(&["S", "L"]), [0, 1_000]);
    assert_eq!(world.ring(), "L S");
}

#[test]
fn s6_9_quanta_1_to_3_at_unit_costs_alternate_one_and_three() {
    let mut world = unblocked(&["one quantum: 1", "three quantum: 3"]);
    world.submit_many(20, Ask::new("a", 1).of("one"));
    world.submit_many(40, Ask::new("b", 1).of("three"));
    assert_eq!(go(&mut world, 8), "a0 b0 b1 b2 a1 b3 b4 b5");
}

#[test]
fn s6_9_320_and_320_of_512_share_by_quanta() {
    for (premium, regular, expected) in [(512, 128, 256), (512, 512, 160), (2_048, 512, 256)] {
        let mut world = premium_and_regular(premium, regular, u64::MAX >> 1);
        assert_eq!(world.arbitrate(320).dispatched, 320);
        let sent = world.sent();
        let got = sent.iter().filter(|sent| sent.class == "premium").count();
        assert_eq!(got, expected, "{premium}:{regular}");
    }
}

#[test]
fn s6_9_exact_gives_equal_tokens_at_3q_and_4q_page_does_not() {
    let lines = ["a quantum: 100", "b quantum: 100"];
    for (settings, a, b) in [("", 48, 36), ("arbitration: page", 42, 42)] {
        let mut world = World::with_worker(&classes_and(&lines, settings));
        world.checks = false;
        world.submit_many(84, Ask::new("a", 300).of("a"));
        world.submit_many(84, Ask::new("b", 400).of("b"));
        world.take();
        world.arbitrate(84);
        let served: Vec<_> = world.sent().into_iter().map(|sent| sent.class).collect();
        assert_eq!(
            (count(&served, "a"), count(&served, "b")),
            (a, b),
            "{settings}"
        );
    }
}
