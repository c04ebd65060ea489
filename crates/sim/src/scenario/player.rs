//! A journal's replay: what an engine's arbiter took in goes through an arbiter again, and what comes
//! out is compared with what the journal says came out.

use std::collections::VecDeque;
use std::io::{BufRead, ErrorKind, Write};

use tollgate_policy::{PolicyFile, Profile};

use super::ArbiterMachine;
use super::runner::{BYTE_ORDER_MARK, Length, RunError, next_line};
use crate::protocol::{Decided, Event, JournalOp, Machine, PolicyText, Restore};

/// The longest line of a journal, in bytes, its end left aside.
pub const JOURNAL_LINE_BYTES_MAX: usize = 1 << 26;

/// Plays journals on the arbiter.
///
/// # Examples
/// ```
/// use tollgate_sim::scenario::{JournalPlayer, Outcome};
///
/// let mut output = Vec::new();
/// let cut = br#"{"op":"restore","version":1,"model":0}"#;
/// let replayed = JournalPlayer::default().run(&cut[..], &mut output)?;
/// assert_eq!(replayed.outcome, Outcome::Damaged);
/// assert!(String::from_utf8_lossy(&output).contains("field `policy` is missing"));
/// # Ok::<(), tollgate_sim::scenario::RunError>(())
/// ```
#[derive(Debug, Default)]
pub struct JournalPlayer {
    is_explaining: bool,
    stage: Stage,
    /// What the replay decided and the journal has not said yet.
    pending: VecDeque<Decided>,
    replayed: Replayed,
    /// Lines behind the checkpoint.
    records: u64,
}

/// How a replay went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Lines read, blank ones included.
    pub lines: u64,
    /// Decisions that were as the journal says.
    pub decisions: u64,
    /// The capture ended because there was no room for more.
    pub full: bool,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was decided as the journal says.
    #[default]
    Same,
    /// Something was decided otherwise; the replay ended there.
    Differs,
    /// A line cannot be carried out, or lines are missing; the replay ended there.
    Damaged,
    /// The first line is no `restore`: this is no journal. Nothing was printed.
    NoJournal,
}

/// How far a journal has come.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Nothing,
    /// The parts of its checkpoint come in.
    Restoring(Box<Restore>),
    Playing(Box<ArbiterMachine>),
    Ended(Box<ArbiterMachine>),
}

/// Why a line ends a replay.
enum Fault {
    Damage(String),
    Difference(Option<Decided>, Option<Decided>),
    NoJournal,
}

impl From<String> for Fault {
    fn from(problem: String) -> Self {
        Self::Damage(problem)
    }
}

impl JournalPlayer {
    /// The same, with an `explain` event after each selection.
    #[must_use]
    pub const fn explaining(mut self) -> Self {
        self.is_explaining = true;
        self
    }

    /// Reads to the end of `input`, or to the first line that is damaged or was decided otherwise; that
    /// gives an event `invalid` or `differs`. Whoever reads the output may close it: the run ends
    /// there, without an error.
    ///
    /// # Errors
    /// If `input` or `output` fails otherwise.
    pub fn run(mut self, input: impl BufRead, output: impl Write) -> Result<Replayed, RunError> {
        match self.run_lines(input, output) {
            Err(RunError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => {}
            done => done?,
        }
        Ok(self.replayed)
    }

    fn run_lines(
        &mut self,
        mut input: impl BufRead,
        mut output: impl Write,
    ) -> Result<(), RunError> {
        let (mut line, mut events) = (Vec::new(), Vec::new());
        loop {
            let length = next_line(&mut input, &mut line, JOURNAL_LINE_BYTES_MAX);
            let taken = match length.map_err(RunError::Read)? {
                None => self.finish(),
                Some(length) => {
                    self.replayed.lines += 1;
                    self.take(&line, length, &mut events)
                }
            };
            for event in events.drain(..) {
                writeln!(output, "{}", event.to_json()).map_err(RunError::Write)?;
            }
            match taken {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => {
                    if let Some(event) = self.fail(fault) {
                        writeln!(output, "{}", event.to_json()).map_err(RunError::Write)?;
                    }
                    break;
                }
            }
        }
        output.flush().map_err(RunError::Write)
    }

    fn fail(&mut self, fault: Fault) -> Option<Event> {
        let (now_us, line) = (self.now_us(), self.replayed.lines);
        match fault {
            Fault::Damage(error) => {
                self.replayed.outcome = Outcome::Damaged;
                Some(Event::Invalid {
                    now_us,
                    line,
                    error,
                })
            }
            Fault::Difference(recorded, replayed) => {
                self.replayed.outcome = Outcome::Differs;
                Some(Event::Differs {
                    now_us,
                    line,
                    recorded,
                    replayed,
                })
            }
            Fault::NoJournal => {
                self.replayed.outcome = Outcome::NoJournal;
                None
            }
        }
    }

    fn now_us(&self) -> u64 {
        match &self.stage {
            Stage::Playing(machine) | Stage::Ended(machine) => machine.now_us(),
            Stage::Nothing | Stage::Restoring(_) => 0,
        }
    }

    /// After the last line; false: all is well.
    fn finish(&self) -> Result<bool, Fault> {
        match &self.stage {
            Stage::Ended(_) => Ok(false),
            Stage::Nothing => Err(Fault::NoJournal),
            Stage::Restoring(_) | Stage::Playing(_) => {
                let problem = "the journal is cut: its last line must be `end`";
                Err(problem.to_owned().into())
            }
        }
    }

    /// One line; true: go on.
    fn take(
        &mut self,
        line: &[u8],
        length: Length,
        events: &mut Vec<Event>,
    ) -> Result<bool, Fault> {
        if length == Length::Beyond {
            let problem = format!("the line is longer than {JOURNAL_LINE_BYTES_MAX} bytes");
            return Err(problem.into());
        }
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.replayed.lines == 1 => rest,
            _ => line,
        };
        let text = std::str::from_utf8(line).map_err(|error| {
            let at = error.valid_up_to() + 1;
            format!("not UTF-8 text: byte {at} of the line is wrong")
        })?;
        if text.trim().is_empty() {
            return Ok(true);
        }
        let op = JournalOp::parse(text);
        if matches!(self.stage, Stage::Nothing) && !is_restore(text, &op) {
            return Err(Fault::NoJournal);
        }
        self.carry_out(op.map_err(|error| error.to_string())?, events)?;
        Ok(true)
    }

    fn carry_out(&mut self, op: JournalOp, events: &mut Vec<Event>) -> Result<(), Fault> {
        match &mut self.stage {
            Stage::Nothing => {
                if let JournalOp::Restore(restore) = op {
                    self.stage = Stage::Restoring(restore);
                }
                self.build_if_whole()
            }
            Stage::Restoring(restore) => {
                restore_part(restore, op)?;
                self.build_if_whole()
            }
            Stage::Playing(_) => self.play(op, events),
            Stage::Ended(_) => Err("nothing may follow `end`".to_owned().into()),
        }
    }

    fn build_if_whole(&mut self) -> Result<(), Fault> {
        let Stage::Restoring(restore) = &self.stage else {
            return Ok(());
        };
        if restore.counts != [0; 4] {
            return Ok(());
        }
        let profile = profile(&restore.policy)?;
        let machine = ArbiterMachine::restored(
            &profile,
            restore.capacities,
            restore.model,
            &restore.checkpoint,
        );
        let machine = machine.map_err(|error| format!("the checkpoint is wrong: {error}"))?;
        let machine = if self.is_explaining {
            machine.explaining()
        } else {
            machine
        };
        self.stage = Stage::Playing(Box::new(machine));
        Ok(())
    }

    fn play(&mut self, op: JournalOp, events: &mut Vec<Event>) -> Result<(), Fault> {
        match op {
            JournalOp::Decided(decided) => return self.compare(decided),
            JournalOp::End { full, records } => return self.end(full, records),
            _ => {}
        }
        if let Some(replayed) = self.pending.pop_front() {
            return Err(Fault::Difference(None, Some(replayed)));
        }
        self.records += 1;
        let Stage::Playing(machine) = &mut self.stage else {
            return Ok(());
        };
        carry_out(machine, op, events)?;
        let invalid = events.iter().find_map(|event| match event {
            Event::Invalid { error, .. } => Some(error.clone()),
            _ => None,
        });
        if let Some(error) = invalid {
            events.retain(|event| !matches!(event, Event::Invalid { .. }));
            return Err(error.into());
        }
        self.pending.extend(events.iter().filter_map(Decided::of));
        Ok(())
    }

    fn compare(&mut self, recorded: Decided) -> Result<(), Fault> {
        self.records += 1;
        let replayed = self.pending.pop_front();
        if replayed.as_ref() != Some(&recorded) {
            return Err(Fault::Difference(Some(recorded), replayed));
        }
        self.replayed.decisions += 1;
        Ok(())
    }

    fn end(&mut self, full: bool, records: u64) -> Result<(), Fault> {
        if records != self.records {
            let found = self.records;
            let problem = format!("field `records` is {records}, but there are {found}");
            return Err(problem.into());
        }
        self.replayed.full = full;
        // A capture that ended for lack of room may not have all that its last operation brought about.
        if let Some(replayed) = self.pending.pop_front().filter(|_| !full) {
            return Err(Fault::Difference(None, Some(replayed)));
        }
        if let Stage::Playing(machine) = std::mem::take(&mut self.stage) {
            self.stage = Stage::Ended(machine);
        }
        Ok(())
    }
}

/// Whether a line is, or was meant to be, a journal's first.
fn is_restore(text: &str, op: &Result<JournalOp, crate::protocol::OpError>) -> bool {
    match op {
        Ok(op) => matches!(op, JournalOp::Restore(_)),
        // However it is spaced and ordered.
        Err(_) => text.starts_with('{') && text.contains(r#""restore""#),
    }
}

fn profile(policy: &PolicyText) -> Result<Profile, String> {
    let file = PolicyFile::parse("the journal's policy", policy.text.as_bytes());
    let mut file = file.map_err(|errors| errors.to_string())?;
    if let Some(threshold) = policy.queue_threshold {
        file = file.with_queue_threshold(threshold);
    }
    Ok(file.profile(None).clone())
}

fn restore_part(restore: &mut Restore, op: JournalOp) -> Result<(), String> {
    let checkpoint = &mut restore.checkpoint;
    let kind = match op {
        JournalOp::RestoreClass(class) => {
            checkpoint.classes.push(*class);
            0
        }
        JournalOp::RestoreWorker(worker) => {
            checkpoint.workers.push(worker);
            1
        }
        JournalOp::RestoreEndpoint(endpoint) => {
            checkpoint.endpoints.push(endpoint);
            2
        }
        JournalOp::RestoreRequest(request) => {
            checkpoint.requests.push(*request);
            3
        }
        _ => {
            let [classes, workers, endpoints, requests] = restore.counts;
            return Err(format!(
                "the checkpoint is not whole: {classes} classes, {workers} workers, {endpoints} \
                 endpoints and {requests} requests are missing"
            ));
        }
    };
    let left = &mut restore.counts[kind];
    *left = left
        .checked_sub(1)
        .ok_or("the checkpoint has more parts than `restore` counts")?;
    Ok(())
}

fn carry_out(
    machine: &mut ArbiterMachine,
    op: JournalOp,
    events: &mut Vec<Event>,
) -> Result<(), String> {
    match op {
        JournalOp::Op(crate::protocol::Op::Reload { .. } | crate::protocol::Op::Submit(_)) => {
            return Err("a journal has no such operation".to_owned());
        }
        JournalOp::Op(op) => machine.apply(&op, events),
        JournalOp::At { ns } => machine.set_time(tollgate_arbiter::Nanos(ns)),
        JournalOp::Intake(intake) => machine.intake(&intake, events),
        JournalOp::Turn {
            dispatches,
            removals,
        } => machine.turn(dispatches, removals, events),
        JournalOp::Room { group, room } => {
            machine.check_group(group)?;
            machine.set_egress_room(group, room.unwrap_or(u32::MAX));
        }
        JournalOp::Hold { on } => machine.hold_drained(on),
        JournalOp::Amend { id, change } => machine.amend(id, &change, events),
        JournalOp::Abandon {
            group,
            from,
            budget,
        } => {
            machine.check_group(group)?;
            machine.abandon(group, from, budget);
        }
        JournalOp::Drain { ns } => machine.begin_drain(tollgate_arbiter::Nanos(ns)),
        JournalOp::Reload(policy) => machine.reload(&profile(&policy)?, events),
        JournalOp::Restore(_)
        | JournalOp::RestoreClass(_)
        | JournalOp::RestoreWorker(_)
        | JournalOp::RestoreEndpoint(_)
        | JournalOp::RestoreRequest(_) => {
            return Err("the checkpoint is whole already".to_owned());
        }
        JournalOp::Decided(_) | JournalOp::End { .. } => {}
    }
    Ok(())
}
