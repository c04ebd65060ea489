//! Journals: what an engine captured of a random run is written, read and replayed, and every dispatch
//! and outcome of the replay is the one that the engine delivered.
//!
//! `TOLLGATE_JOURNAL_RECORDS` sets how many records the long run captures, 100,000 unless set.

mod run;

use serde_json::Value;
use tollgate::policy::Profile;
use tollgate::{Command, ControlError, Done, Engine, Journal, ModelIndex, Nanos, Request, Worker};
use tollgate_sim::scenario::{JournalPlayer, Outcome, Replayed};

use self::run::{Dice, MODELS, Run};

/// Written, read and replayed; and what the replay said, in words.
fn replay(journal: &Journal) -> (Replayed, Vec<String>) {
    let mut file = Vec::new();
    journal.write(&mut file).expect("memory takes everything");
    let mut output = Vec::new();
    let played = JournalPlayer::default().run(&file[..], &mut output);
    let replayed = played.expect("memory can be read");
    let output = String::from_utf8(output).expect("it is text");
    if replayed.outcome != Outcome::Same {
        let line = usize::try_from(replayed.lines).expect("small");
        let file = String::from_utf8(file).expect("it is text");
        let near: Vec<&str> = file
            .lines()
            .skip(line.saturating_sub(12))
            .take(14)
            .collect();
        let last: Vec<&str> = output.lines().rev().take(4).collect();
        panic!("{replayed:?}\n{}\n{}", last.join("\n"), near.join("\n"));
    }
    (replayed, output.lines().filter_map(in_words).collect())
}

/// A dispatch or an outcome that an event tells of.
fn in_words(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).expect("an event is JSON");
    let id = event["id"].as_str()?;
    let name = event["event"].as_str()?;
    Some(match name {
        "dispatched" => format!("{id} {name} {} {}", event["worker"], event["attempt"]),
        "rejected" => format!(
            "{id} {name} {} {} {} {}",
            event["limit_kind"], event["current"], event["limit"], event["workers"]
        ),
        "failed" => format!("{id} {name} {}", event["reason"]),
        "expired" | "cancelled" | "shutting_down" => format!("{id} {name}"),
        // The core answers for an arbiter that has closed.
        "closed" => format!("{id} shutting_down"),
        _ => return None,
    })
}

/// What of a run's deliveries is a model's.
fn of_model(run: &Run, shard: usize, model: u8) -> Vec<String> {
    let slots = run.hands.handles.settings().slots_per_model;
    let bits = slots.next_power_of_two().ilog2();
    let is_mine = |words: &&String| {
        let place = words.split('.').next().and_then(|place| place.parse().ok());
        place.is_some_and(|place: u32| place >> bits == u32::from(model))
    };
    let delivered = run.delivered[shard].iter().filter(is_mine);
    let decided = delivered.filter(|words| !words.ends_with("returned"));
    decided.cloned().collect()
}

fn take(run: &mut Run, model: u8) -> Journal {
    let model = ModelIndex(model);
    match run.execute(Command::TakeJournal { model }) {
        Ok(Done::Journal(Some(journal))) => journal,
        other => panic!("a journal was captured, not {other:?}"),
    }
}

/// The last that was delivered is what the replay says.
fn assert_ends_with(delivered: &[String], replayed: &[String], what: &str) {
    let from = delivered.len().checked_sub(replayed.len());
    let from = from.expect("not more is replayed than was delivered");
    for (at, (delivered, replayed)) in delivered[from..].iter().zip(replayed).enumerate() {
        assert_eq!(delivered, replayed, "{what}: decision {at}");
    }
}

fn start(run: &mut Run, model: u8, capacity_bytes: usize) {
    let model = ModelIndex(model);
    let command = Command::StartJournal {
        model,
        capacity_bytes,
    };
    run.execute(command).expect("it can begin");
}

#[test]
fn a_capture_from_the_build_on_replays_to_what_was_delivered() {
    for seed in 1..=12 {
        let mut run = Run::new(seed, 1, Some(1 << 24));
        (0..600).for_each(|_| run.step());
        run.finish();
        for model in 0..MODELS {
            let journal = take(&mut run, model);
            assert!(!journal.is_full() && journal.records() > 2_000);
            let (_, replayed) = replay(&journal);
            let delivered = of_model(&run, 0, model);
            assert_eq!(
                delivered.len(),
                replayed.len(),
                "seed {seed}, model {model}"
            );
            assert_ends_with(
                &delivered,
                &replayed,
                &format!("seed {seed}, model {model}"),
            );
        }
    }
}

#[test]
fn a_capture_from_the_middle_on_replays_to_what_was_delivered_since() {
    for seed in 101..=124 {
        let mut run = Run::new(seed, 1, None);
        let mut dice = Dice(seed);
        (0..100 + dice.roll(300)).for_each(|_| run.step());
        start(&mut run, 1, 1 << 24);
        (0..300).for_each(|_| run.step());
        start(&mut run, 0, 1 << 24);
        (0..100).for_each(|_| run.step());
        // One ends while the engine goes on, the other with it.
        let first = take(&mut run, 1);
        let mut until_then = of_model(&run, 0, 1);
        run.finish();
        let (replayed, words) = replay(&first);
        assert!(replayed.decisions > 500, "{replayed:?}");
        // What was decided and not received yet when it was taken came later.
        let all = of_model(&run, 0, 1);
        let is_part = (until_then.len()..=all.len()).any(|end| all[..end].ends_with(&words));
        assert!(is_part, "seed {seed}");
        until_then.clear();
        let (_, words) = replay(&take(&mut run, 0));
        assert_ends_with(&of_model(&run, 0, 0), &words, &format!("seed {seed}"));
    }
}

#[test]
fn several_egress_shards_see_their_own_part_of_what_is_replayed() {
    for seed in 201..=208 {
        let mut run = Run::new(seed, 3, Some(1 << 24));
        (0..500).for_each(|_| run.step());
        run.finish();
        for model in 0..MODELS {
            let (_, replayed) = replay(&take(&mut run, model));
            let mut delivered = Vec::new();
            for shard in 0..3 {
                let mine = of_model(&run, shard, model);
                let dispatched: Vec<_> = mine
                    .iter()
                    .filter(|words| words.contains("dispatched"))
                    .collect();
                let of_shard: Vec<_> = replayed
                    .iter()
                    .filter(|words| shard_of(words) == Some(shard as u64))
                    .collect();
                assert_eq!(
                    dispatched, of_shard,
                    "seed {seed}, model {model}, shard {shard}"
                );
                delivered.extend(mine);
            }
            let mut replayed = replayed;
            delivered.sort_unstable();
            replayed.sort_unstable();
            assert_eq!(delivered, replayed, "seed {seed}, model {model}");
        }
    }
}

#[test]
fn the_loss_of_an_egress_shard_is_replayed() {
    for seed in 301..=306 {
        let mut run = Run::new(seed, 3, Some(1 << 24));
        (0..200).for_each(|_| run.step());
        run.lose_a_shard();
        (0..200).for_each(|_| run.step());
        run.finish();
        for model in 0..MODELS {
            let journal = take(&mut run, model);
            let mut file = Vec::new();
            journal.write(&mut file).expect("memory takes everything");
            let file = String::from_utf8(file).expect("it is text");
            assert!(
                file.contains(r#"{"op":"abandon","group":2,"#),
                "seed {seed}"
            );
            let (_, replayed) = replay(&journal);
            let delivered = (0..3).flat_map(|shard| of_model(&run, shard, model));
            for words in delivered {
                assert!(
                    replayed.contains(&words),
                    "seed {seed}, model {model}: {words}"
                );
            }
        }
    }
}

fn shard_of(words: &str) -> Option<u64> {
    let worker = words.split("dispatched [").nth(1)?.split(',').next()?;
    worker.parse::<u64>().ok().map(|worker| worker % 3)
}

#[test]
fn a_long_run_replays_to_what_was_delivered() {
    let records = std::env::var("TOLLGATE_JOURNAL_RECORDS").map_or(100_000, |text| {
        text.parse()
            .expect("TOLLGATE_JOURNAL_RECORDS is a whole number")
    });
    let mut run = Run::new(999, 1, None);
    (0..50).for_each(|_| run.step());
    let bytes = usize::try_from(64 * records).expect("it fits");
    start(&mut run, 0, bytes);
    let mut steps = 0_u64;
    // About 8 records a step are of the first model.
    while steps * 8 < records {
        run.step();
        steps += 1;
    }
    run.finish();
    let journal = take(&mut run, 0);
    assert!(
        !journal.is_full() && journal.records() >= records,
        "{journal:?}"
    );
    let (replayed, words) = replay(&journal);
    assert_ends_with(&of_model(&run, 0, 0), &words, "the long run");
    assert!(replayed.decisions * 10 > journal.records(), "{replayed:?}");
}

/// Deliveries without generations, which begin elsewhere in each engine.
fn places(delivered: &[String]) -> Vec<String> {
    let place = |words: &String| {
        let (place, rest) = words.split_once('.').expect("it begins with a ticket");
        let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        format!("{place} {rest}")
    };
    delivered.iter().map(place).collect()
}

#[test]
fn a_full_buffer_ends_the_capture_and_nothing_else() {
    let deliveries = |journal| {
        let mut run = Run::new(7, 1, journal);
        (0..200).for_each(|_| run.step());
        run.finish();
        run
    };
    let without = deliveries(None);
    for bytes in (4_096..40_000).step_by(1_208) {
        let mut with = deliveries(Some(bytes));
        assert_eq!(places(&with.delivered[0]), places(&without.delivered[0]));
        for model in 0..MODELS {
            let journal = take(&mut with, model);
            assert!(journal.is_full() && journal.bytes() <= bytes, "{journal:?}");
            assert!(journal.bytes() + 1_000 > bytes, "{journal:?}");
            let (replayed, words) = replay(&journal);
            assert!(replayed.full);
            let delivered = of_model(&with, 0, model);
            // The last operation's decisions may be missing in the journal, and are replayed.
            assert!(
                delivered.starts_with(&words),
                "{bytes} bytes, model {model}"
            );
        }
    }
}

#[test]
fn explaining_a_journal_changes_no_event() {
    let mut run = Run::new(31, 1, Some(1 << 22));
    (0..120).for_each(|_| run.step());
    run.finish();
    let mut file = Vec::new();
    take(&mut run, 0)
        .write(&mut file)
        .expect("memory takes everything");
    let (mut plain, mut explained) = (Vec::new(), Vec::new());
    let player = JournalPlayer::default();
    let first = player.run(&file[..], &mut plain).expect("memory");
    let player = JournalPlayer::default().explaining();
    let second = player.run(&file[..], &mut explained).expect("memory");
    assert_eq!((first, first.outcome), (second, Outcome::Same));
    let (plain, explained) = [plain, explained]
        .map(|out| String::from_utf8(out).expect("text"))
        .into();
    let is_event = |line: &&str| !line.starts_with(r#"{"event":"explain""#);
    let events: Vec<_> = explained.lines().filter(is_event).collect();
    assert_eq!(events, plain.lines().collect::<Vec<_>>());
    assert!(explained.lines().count() > events.len() + 100);
}

#[test]
fn starts_and_takes_are_told_what_is_wrong() {
    let builder = Engine::builder(Profile::synthetic(None)).worker(Worker::new(1));
    let built = builder.build::<u64>().expect("it is valid");
    let control = built.engine.control();
    let model = ModelIndex(0);
    assert!(matches!(control.take_journal(model), Ok(None)));
    for found in [0, 4_095, (1 << 36) + 1] {
        let refused = control.start_journal(model, found);
        assert_eq!(refused, Err(ControlError::JournalBytes { found }));
    }
    let unknown = ControlError::UnknownModel {
        found: 1,
        available: 1,
    };
    assert_eq!(control.start_journal(ModelIndex(1), 4_096), Err(unknown));
    assert_eq!(control.start_journal(model, 4_096), Ok(()));
    assert_eq!(
        control.start_journal(model, 4_096),
        Err(ControlError::JournalRuns)
    );
    let journal = control.take_journal(model).expect("it runs").expect("one");
    assert_eq!(
        (journal.records(), journal.bytes(), journal.is_full()),
        (0, 0, false)
    );
    assert_eq!(replay(&journal).0.outcome, Outcome::Same);
    assert_eq!(control.start_journal(model, 4_096), Ok(()), "it was taken");
    // After the close, once.
    drop(built);
    let left = control.take_journal(model).expect("it was left");
    assert_eq!(replay(&left.expect("one")).0.outcome, Outcome::Same);
    assert!(matches!(
        control.take_journal(model),
        Err(ControlError::Closed(_))
    ));
    assert!(matches!(
        control.start_journal(model, 4_096),
        Err(ControlError::Closed(_))
    ));
}

#[test]
fn a_model_with_a_selector_of_its_own_has_no_journal() {
    let selector = || Box::new(tollgate::selector::RoundRobin);
    let engine = || Engine::builder(Profile::synthetic(None)).selector(selector());
    let mut by_hand = engine().build_by_hand::<u64>().expect("it is valid");
    let control = by_hand.handles.control();
    let command = Command::StartJournal {
        model: ModelIndex(0),
        capacity_bytes: 4_096,
    };
    let refused = by_hand.core.execute(&control, command);
    assert!(matches!(refused, Err(ControlError::OwnSelector(_))));
    let errors = engine().journal(4_096).build_by_hand::<u64>().map(drop);
    let errors = errors
        .expect_err("it has a selector of its own")
        .to_string();
    assert!(errors.starts_with("the journal of model 0: "), "{errors}");
    let errors = Engine::builder(Profile::synthetic(None))
        .journal(1)
        .build_by_hand::<u64>();
    let errors = errors.map(drop).expect_err("too small").to_string();
    assert!(
        errors.contains("journal must be between 4096 and 68719476736, not 1"),
        "{errors}"
    );
}

#[test]
fn a_journal_of_real_threads_replays_to_what_was_delivered() {
    let mut builder = Engine::builder(Profile::synthetic(None)).ingress_shards(2);
    for id in 0..4 {
        builder = builder.worker(Worker::new(id));
    }
    let mut built = builder
        .journal(1 << 24)
        .build::<u64>()
        .expect("it is valid");
    let control = built.engine.control();
    let mut egress = built.egress.pop().expect("one");
    let mut delivered = Vec::new();
    std::thread::scope(|scope| {
        for mut shard in built.ingress.drain(..) {
            scope.spawn(move || {
                let mut sent = 0;
                while sent < 4_000 {
                    let request = Request::new(100, sent);
                    sent += u64::from(shard.try_submit(request).is_ok());
                }
            });
        }
        while delivered.len() < 8_000 {
            let Ok(Some(delivery)) = egress.try_recv() else {
                continue;
            };
            if let tollgate::Delivery::Dispatch(dispatch) = delivery {
                let worker = dispatch.endpoint.worker.0;
                delivered.push(format!("{} dispatched [{worker},0] 1", dispatch.ticket));
                egress.complete(dispatch.receipt());
            }
        }
    });
    let journal = control
        .take_journal(ModelIndex(0))
        .expect("it runs")
        .expect("one");
    let (_, replayed) = replay(&journal);
    assert_eq!(delivered, replayed);
    assert!(journal.pause() < std::time::Duration::from_secs(10));
    assert_eq!(Nanos(0), Nanos::default());
}

/// Whatever record an engine takes, its journal's reader takes as well.
#[test]
fn a_worker_without_a_batch_is_replayed() {
    let builder = Engine::builder(Profile::synthetic(None)).journal(1 << 16);
    let built = builder.build_by_hand::<()>();
    let mut by_hand = built.unwrap_or_else(|errors| panic!("{errors}"));
    let (control, model) = (by_hand.handles.control(), ModelIndex(0));
    let worker = Worker {
        max_batched_tokens: Some(0),
        ..Worker::new(2)
    };
    let added = Command::UpsertWorker { model, worker };
    assert!(by_hand.core.execute(&control, added).is_ok());
    let submitted = by_hand.ingress[0].try_submit(Request::new(1, ()));
    assert!(submitted.is_ok());
    by_hand.core.turn(Nanos(5));
    let taken = by_hand
        .core
        .execute(&control, Command::TakeJournal { model });
    let Ok(Done::Journal(Some(journal))) = taken else {
        panic!("it was captured from the start");
    };
    assert_eq!(replay(&journal).0.decisions, 1);
}
