//! Explanations: why a selection went as it did, and why what waits waits.

use serde::Serialize;

use super::Lane;

/// What one selection saw and did; see [`Event::Explain`](super::Event::Explain).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// When.
    pub now_us: u64,
    /// The request that was dispatched; unset: the selection was dry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatched: Option<String>,
    /// The result in one sentence.
    pub why: String,
    /// Every class as the selection met it, in ring order; empty where it was not watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selection: Vec<ClassTrace>,
    /// Every lane's head that waits after the selection; unset where that was not watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Vec<HeadTrace>>,
    /// What is refused at the end of this turn because it may not wait (S7.2), and why each was no
    /// dispatchable head.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<HeadTrace>,
}

/// One class in a selection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassTrace {
    /// Its name.
    pub class: String,
    /// Its best dispatchable head, if any.
    pub candidate: Option<String>,
    /// Where the candidate waits.
    pub lane: Option<Lane>,
    /// What the candidate costs, in uncached tokens.
    pub cost: Option<u64>,
    /// The class's deficit before the selection.
    pub deficit: u64,
    /// Its quantum.
    pub quantum: u64,
    /// Its turn was open before the selection; always false in mode `page`.
    pub turn_open: bool,
    /// What the selection did with it, in order.
    pub steps: Vec<String>,
}

/// One lane's head that waits, or a request that is refused because it may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeadTrace {
    /// The request.
    pub id: String,
    /// Its class.
    pub class: String,
    /// Its lane.
    pub lane: Lane,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// The same with the numbers, in one sentence.
    pub why: String,
}

/// What a lane's head waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// Room: its endpoint, or enough of its pool, is busy (S5.3).
    Gate,
    /// Its fate: it can run nowhere and fails at the next sweep (S5.4).
    Failure,
    /// The head of its lane; only what is refused can stand behind one.
    Lane,
    /// A better head of its own class (S4.4).
    BetterHead,
    /// Its class's turn, or credit (S6).
    Turn,
    /// The next selection: nothing stands in its way.
    Selection,
}
