//! A worker's process is killed, and comes back.

use rustix::process::Signal;
use serde_json::Value;

use crate::http::{COMPLETIONS, completion, post};
use crate::stage::{Router, Worker, until};

fn standing(router: &Router, at: usize) -> Value {
    router.operator("/workers")["workers"][at]["standing"].clone()
}

#[test]
fn a_killed_worker_is_taken_out_and_taken_back() {
    let mut first = Worker::start("5");
    let second = Worker::start("5");
    let router = Router::start(&[&first, &second], &[]);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..40)
            .map(|_| scope.spawn(|| post(&router.address, COMPLETIONS, &[], &completion(40))))
            .collect();
        until("a request at the first worker", || {
            (first.stat("running") > 0).then_some(())
        });
        first.process.signal(Signal::KILL);
        for client in clients {
            let answer = client.join().expect("it does not panic");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    });
    assert_eq!(first.process.end(), None, "it was killed");
    until("the first worker to be out", || {
        (standing(&router, 0) == "ejected").then_some(())
    });
    assert_eq!(standing(&router, 1), "well");
    let report = router.operator("/workers")["workers"][0].clone();
    assert!(report["last_failure"].is_string(), "{report}");
    let again = Worker::start_at(&first.address, "5");
    until("the first worker to be back", || {
        (standing(&router, 0) == "well").then_some(())
    });
    until("a request at the worker that came back", || {
        let answer = post(&router.address, COMPLETIONS, &[], &completion(1));
        assert_eq!(answer.status, 200, "{answer:?}");
        (again.stat("completed") > 0).then_some(())
    });
}
