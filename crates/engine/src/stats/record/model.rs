//! Models of [`Record`], over the product's code, and proofs that they would find its faults.

use std::sync::Arc;

use loom::model::Builder;
use loom::thread;

use super::*;
use crate::sync::shim::leave_fences_out;

/// Who leaves the fences out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nobody,
    Writer,
    Reader,
}

/// A reader beside a writer sees whole records (I1), and never an earlier one after a later one.
///
/// The writer is the thread that loom runs first. It loads the version before it stores it, which
/// hides from loom that its store competes with the loads of a reader that ran before; loads that
/// run after a store are tried with every value that they may see, also old ones.
fn whole_records_in_order(fault: Fault) {
    const ROUNDS: u64 = 3;
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let record = Arc::new(Record::<2>::new());
        let reader = thread::spawn({
            let record = Arc::clone(&record);
            move || {
                if fault == Fault::Reader {
                    leave_fences_out();
                }
                let mut last = 0;
                for _ in 0..2 {
                    let [first, second] = record.read().unwrap_or_default();
                    assert_eq!(first, second, "torn");
                    assert!(first >= last, "back from {last} to {first}");
                    last = first;
                }
            }
        });
        if fault == Fault::Writer {
            leave_fences_out();
        }
        for round in 1..=ROUNDS {
            record.publish(&[round, round]);
        }
        reader.join().expect("whole records, in order");
        assert_eq!(record.read(), Some([ROUNDS; 2]));
    });
}

#[test]
fn a_reader_sees_whole_records_in_order() {
    whole_records_in_order(Fault::Nobody);
}

#[test]
#[should_panic(expected = "torn")]
fn without_the_writer_s_fence_a_record_is_torn() {
    whole_records_in_order(Fault::Writer);
}

#[test]
#[should_panic(expected = "torn")]
fn without_the_reader_s_fence_a_record_is_torn() {
    whole_records_in_order(Fault::Reader);
}
