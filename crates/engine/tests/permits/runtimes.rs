//! The same on a bare executor and on both runtimes of tokio.

use std::time::Duration;

use tollgate::{Admission, AdmitError, BuiltAdmission, Engine, Outcome, Request, Worker};

use crate::common::{block_on, one_at_a_time};

fn build() -> BuiltAdmission {
    let builder = Engine::builder(one_at_a_time())
        .ingress_shards(2)
        .egress_shards(2)
        .slots(64);
    let built = (1..=4).fold(builder, |builder, id| builder.worker(Worker::new(id)));
    built
        .build_admission()
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// What a task of a router does, in every form.
async fn serve(admission: Admission) -> Result<u8, AdmitError> {
    let mut permit = admission.admit(Request::new(300, ())).await?;
    assert!((1..=4).contains(&permit.endpoint().worker.0));
    permit.prefill_done();
    let mut permit = permit.requeue().await?;
    permit.prefill_done();
    let attempt = permit.attempt();
    permit.complete();
    Ok(attempt)
}

fn is_quiet(built: &BuiltAdmission) -> bool {
    let figures = built.engine.handles().stats().read();
    let classes = figures.models[0].classes.iter();
    let left: u64 = classes
        .map(|class| class.gauges.waiting + class.gauges.outstanding)
        .sum();
    left == 0
}

fn stop(built: BuiltAdmission) {
    while !is_quiet(&built) {
        std::thread::sleep(Duration::from_millis(1));
    }
    built.engine.stop().expect("it runs");
    built.engine.join().expect("nothing panicked");
}

#[test]
fn a_bare_executor_is_enough() {
    let built = build();
    for _ in 0..100 {
        assert_eq!(block_on(serve(built.admission.clone())), Ok(2));
    }
    stop(built);
}

#[test]
fn tokio_with_many_threads() {
    let built = build();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .expect("threads are there");
    runtime.block_on(async {
        let serve = || tokio::spawn(serve(built.admission.clone()));
        let tasks: Vec<_> = (0..1_000).map(|_| serve()).collect();
        for task in tasks {
            assert_eq!(task.await.expect("it does not panic"), Ok(2));
        }
    });
    drop(runtime);
    stop(built);
}

#[test]
fn tokio_with_one_thread() {
    let built = build();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("it is there");
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let serve = || tokio::task::spawn_local(serve(built.admission.clone()));
        let tasks: Vec<_> = (0..500).map(|_| serve()).collect();
        for task in tasks {
            assert_eq!(task.await.expect("it does not panic"), Ok(2));
        }
    });
    stop(built);
}

#[test]
fn a_timeout_around_a_waiting_task_cancels_its_request() {
    let built = build();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("it is there");
    runtime.block_on(async {
        let mut permits = Vec::new();
        for _ in 0..4 {
            permits.push(built.admission.admit(Request::new(9, ())).await);
        }
        assert!(permits.iter().all(Result::is_ok));
        let waits = built.admission.admit(Request::new(9, ()));
        let late = tokio::time::timeout(Duration::from_millis(5), waits).await;
        assert!(late.is_err(), "all four are busy");
        drop(permits);
        let permit = built.admission.admit(Request::new(9, ())).await;
        assert!(permit.is_ok());
    });
    drop(runtime);
    stop(built);
}

#[test]
fn a_runtime_that_is_shut_down_cancels_what_its_tasks_wait_for() {
    let built = build();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("threads are there");
    for _ in 0..20 {
        let admission = built.admission.clone();
        runtime.spawn(async move {
            let _permit = admission.admit(Request::new(9, ())).await;
            std::future::pending::<()>().await;
        });
    }
    let stats = built.engine.handles().stats();
    while stats.read().models[0].classes[0].gauges.waiting < 16 {
        std::thread::sleep(Duration::from_millis(1));
    }
    runtime.shutdown_timeout(Duration::from_secs(10));
    stop(built);
}

#[test]
fn a_request_that_ends_tells_its_task() {
    let built = build();
    let admission = built.admission.clone();
    let waits = std::thread::spawn(move || {
        let permits: Vec<_> = (0..4)
            .map(|_| block_on(admission.admit(Request::new(9, ()))))
            .collect();
        let end = block_on(admission.admit(Request::new(9, ())));
        drop(permits);
        end.map(|permit| permit.attempt())
    });
    let stats = built.engine.handles().stats();
    while stats.read().models[0].classes[0].gauges.waiting < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    built
        .engine
        .control()
        .stop(Duration::ZERO)
        .expect("it runs");
    let end = waits.join().expect("it does not panic");
    assert_eq!(
        end.map_err(|error| error.outcome()),
        Err(Some(Outcome::ShuttingDown))
    );
    built.engine.join().expect("nothing panicked");
}
