//! Looking at a worker again and again.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::oneshot;

use super::{ChangeError, Fleet, Severity, Worker};
use crate::config::name_fault;
use crate::upstream::{AskError, Upstream};

/// The least time between two looks, however often something fails.
const PAUSE: Duration = Duration::from_millis(100);
const MODELS: &str = "/v1/models";

/// OpenAI's list of models, as far as it is read.
#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelEntry>,
}

#[derive(Deserialize)]
struct ModelEntry {
    id: String,
}

/// What came of the first look at a worker: whether the engine has room for it.
type First = Result<(), ChangeError>;

/// Watches a worker until it is removed. The receiver hears of the end of the first look.
pub(crate) fn watch(
    fleet: &Arc<Fleet>,
    upstream: &Upstream,
    worker: &Arc<Worker>,
) -> oneshot::Receiver<First> {
    let (first, heard) = oneshot::channel();
    let watching = keep_looking(
        Arc::clone(fleet),
        upstream.clone(),
        Arc::clone(worker),
        first,
    );
    worker.watched_by(tokio::spawn(watching).abort_handle());
    heard
}

async fn keep_looking(
    fleet: Arc<Fleet>,
    upstream: Upstream,
    worker: Arc<Worker>,
    first: oneshot::Sender<First>,
) {
    let mut first = Some(first);
    loop {
        let seen = look(&fleet, &upstream, &worker).await;
        let id = worker.id;
        let told = fleet.change(move |fleet| match seen {
            Ok(models) => fleet.saw_well(id, &models),
            Err((severity, why)) => fleet.saw_failing(id, &why, severity),
        });
        // What is wrong with a worker stands in its report.
        let told = told.await;
        if let Some(first) = first.take() {
            // Whoever listened may have lost patience.
            let _ = first.send(told);
        }
        let interval = fleet.config.health.interval;
        let pause = interval.min(PAUSE);
        tokio::time::sleep(pause).await;
        tokio::select! {
            () = tokio::time::sleep(interval - pause) => {}
            () = worker.look_now.notified() => {}
        }
    }
}

/// The models that a worker serves, if it is well.
async fn look(
    fleet: &Fleet,
    upstream: &Upstream,
    worker: &Worker,
) -> Result<Vec<String>, (Severity, String)> {
    let health = &fleet.config.health;
    let url = &worker.config.url;
    let well = upstream.ask(url.join(&health.path), health.timeout).await;
    well.map_err(|error| told(&health.path, &error))?;
    if !worker.config.models.is_empty() {
        return Ok(worker.config.models.clone());
    }
    let listed = upstream.ask(url.join(MODELS), health.timeout).await;
    let listed = listed.and_then(|body| {
        serde_json::from_slice::<ModelList>(&body)
            .map_err(|error| AskError::Body(error.to_string()))
    });
    let listed = listed.map_err(|error| told(MODELS, &error))?;
    if listed.data.is_empty() {
        return Err((Severity::Ill, format!("{MODELS}: it lists no model")));
    }
    let names: Vec<String> = listed.data.into_iter().map(|model| model.id).collect();
    // They stand in logs, on pages and in labels. One that is there twice does no harm.
    let ill = names.iter().find_map(|name| name_fault("models", name));
    if let Some((why, _)) = ill {
        return Err((
            Severity::Ill,
            format!("{MODELS}: a name that it lists {why}"),
        ));
    }
    Ok(names)
}

fn told(path: &str, error: &AskError) -> (Severity, String) {
    let severity = match error {
        AskError::Unreachable(_) => Severity::Dead,
        _ => Severity::Ill,
    };
    (severity, format!("{path}: {error}"))
}
