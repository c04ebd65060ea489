//! One line of a journal to one of its operations, strictly.

use serde_json::Value;
use tollgate_arbiter::{
    BookingCheckpoint, Capacities, Checkpoint, ClassCheckpoint, ClassCounters, ClassIndex,
    ClosingCheckpoint, CostSnapshot, EndpointCheckpoint, EndpointIndex, Nanos, RequestCheckpoint,
    SlotIndex, WorkerCheckpoint, WorkerId,
};
use tollgate_policy::{ClassPolicy, Fraction, OrderPolicy};

use super::journal::{Amendment, Decided, Intake, JOURNAL_VERSION, JournalOp, PolicyText, Restore};
use super::parse::{
    ENDPOINT, FINITE, FLAG, Fields, HINTS, Kind, TEXT, TEXTS, UINT32, UINT64, WORKERS, list,
    read_u32, wrong,
};
use super::{FailReason, LimitKind, OpError, OpName};
use crate::scenario::parse_ticket;

const VERSION: Kind<u64> = Kind {
    read: |value| value.as_u64().filter(|&version| version == JOURNAL_VERSION),
    wanted: "1, the version that this program reads",
};
const UINT8: Kind<u8> = Kind {
    read: |value| u8::try_from(value.as_u64()?).ok(),
    wanted: "a whole number from 0 to 255",
};
const UINT16: Kind<u16> = Kind {
    read: |value| u16::try_from(value.as_u64()?).ok(),
    wanted: "a whole number from 0 to 65535",
};
/// An engine's worker may have more ranks than a scenario's.
const RANKS: Kind<u32> = Kind {
    read: |value| read_u32(value).filter(|&ranks| ranks > 0),
    wanted: "a whole number from 1 to 4294967295",
};
const TICKET: Kind<String> = Kind {
    read: |value| {
        value
            .as_str()
            .filter(|id| parse_ticket(id).is_some())
            .map(str::to_owned)
    },
    wanted: "a ticket `place.generation`, two whole numbers up to 4294967295",
};
const FRACTION: Kind<Fraction> = Kind {
    read: |value| value.as_str()?.parse().ok(),
    wanted: "a string with a decimal number such as \"0.5\"",
};
const ORDER: Kind<OrderPolicy> = Kind {
    read: |value| value.as_str()?.parse().ok(),
    wanted: "\"fcfs\", \"wspt\", \"lcfs\" or \"edf\"",
};
const KEY: Kind<u128> = Kind {
    read: |value| {
        let digits = value.as_str()?.strip_prefix("0x")?;
        u128::from_str_radix(digits, 16)
            .ok()
            .filter(|key| key >> 104 == 0)
    },
    wanted: "a string with a hexadecimal number below 2^104 such as \"0x1f\"",
};
const ROOMS: Kind<Vec<u32>> = Kind {
    read: |value| {
        list(value, |room| match room {
            Value::Null => Some(u32::MAX),
            room => read_u32(room),
        })
    },
    wanted: "a list with a whole number up to 4294967295, or null, for each egress group",
};
const CLASSES: Kind<Vec<ClassIndex>> = Kind {
    read: |value| list(value, |class| Some(ClassIndex((UINT16.read)(class)?))),
    wanted: "a list of class places, whole numbers from 0 to 65535",
};
const ENDPOINTS: Kind<Vec<EndpointIndex>> = Kind {
    read: |value| list(value, |number| read_u32(number).map(EndpointIndex)),
    wanted: "a list of endpoint numbers, whole numbers from 0 to 4294967295",
};
const ANSWERS: Kind<Vec<(SlotIndex, u64)>> = Kind {
    read: |value| {
        list(value, |pair| match pair.as_array()?.as_slice() {
            [slot, intake] => Some((SlotIndex(read_u32(slot)?), intake.as_u64()?)),
            _ => None,
        })
    },
    wanted: "a list of [slot, intake], each two whole numbers",
};
const BOOKED: Kind<(u32, u32)> = Kind {
    read: |value| match value.as_array()?.as_slice() {
        [number, tokens] => Some((read_u32(number)?, read_u32(tokens)?)),
        _ => None,
    },
    wanted: "[endpoint number, tokens], two whole numbers up to 4294967295",
};
const COUNTS: Kind<Vec<u64>> = Kind {
    read: |value| list(value, Value::as_u64),
    wanted: "a list of counters",
};
const LIMIT_KIND: Kind<LimitKind> = Kind {
    read: |value| {
        Some(match value.as_str()? {
            "requests" => LimitKind::Requests,
            "raw_isl_tokens" => LimitKind::RawIslTokens,
            "cached_tokens" => LimitKind::CachedTokens,
            "may_wait" => LimitKind::MayWait,
            _ => return None,
        })
    },
    wanted: "\"requests\", \"raw_isl_tokens\", \"cached_tokens\" or \"may_wait\"",
};
const REASON: Kind<FailReason> = Kind {
    read: |value| {
        let code = value.as_str()?;
        let all = tollgate_arbiter::FailReason::ALL.into_iter();
        let known = all.into_iter().find(|reason| reason.code() == code)?;
        Some(crate::scenario::fail_reason(known))
    },
    wanted: "a reason such as \"no_workers\"",
};

impl JournalOp {
    /// Reads one line of a journal.
    ///
    /// # Errors
    ///
    /// As [`Op::parse`](super::Op::parse); also for another version of the format.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_sim::protocol::JournalOp;
    ///
    /// let turn = JournalOp::parse(r#"{"op": "turn", "dispatches": 64, "removals": 256}"#)?;
    /// assert_eq!(turn, JournalOp::Turn { dispatches: 64, removals: 256 });
    /// let error = JournalOp::parse(r#"{"op": "room", "group": "x"}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "field `group` is \"x\"; it must be a whole number from 0 to 65535"
    /// );
    /// # Ok::<(), tollgate_sim::protocol::OpError>(())
    /// ```
    pub fn parse(line: &str) -> Result<Self, OpError> {
        let mut fields = Fields::read(line)?;
        let op = fields.journal_op()?;
        fields.finish()?;
        Ok(op)
    }
}

impl Fields {
    fn journal_op(&mut self) -> Result<JournalOp, OpError> {
        Ok(match self.op {
            OpName::Restore => JournalOp::Restore(Box::new(self.restore()?)),
            OpName::RestoreClass => JournalOp::RestoreClass(Box::new(self.restore_class()?)),
            OpName::RestoreWorker => JournalOp::RestoreWorker(self.restore_worker()?),
            OpName::RestoreEndpoint => JournalOp::RestoreEndpoint(self.restore_endpoint()?),
            OpName::RestoreRequest => JournalOp::RestoreRequest(Box::new(self.restore_request()?)),
            OpName::At => JournalOp::At {
                ns: self.required("ns", UINT64)?,
            },
            OpName::Intake => JournalOp::Intake(Box::new(self.intake()?)),
            OpName::Turn => JournalOp::Turn {
                dispatches: self.required("dispatches", UINT64)?,
                removals: self.required("removals", UINT64)?,
            },
            OpName::Room => JournalOp::Room {
                group: self.required("group", UINT16)?,
                room: self.optional("room", UINT32)?,
            },
            OpName::Hold => JournalOp::Hold {
                on: self.required("on", FLAG)?,
            },
            OpName::Amend => self.amend()?,
            OpName::Abandon => JournalOp::Abandon {
                group: self.required("group", UINT16)?,
                from: self.required("from", UINT32)?,
                budget: self.required("budget", UINT32)?,
            },
            OpName::Drain => JournalOp::Drain {
                ns: self.required("ns", UINT64)?,
            },
            OpName::Reload => JournalOp::Reload(self.policy_text("text")?),
            OpName::Decided => JournalOp::Decided(self.decided()?),
            OpName::End => JournalOp::End {
                full: self.required("full", FLAG)?,
                records: self.required("records", UINT64)?,
            },
            _ => JournalOp::Op(self.op(RANKS, UINT64)?),
        })
    }

    fn policy_text(&mut self, field: &'static str) -> Result<PolicyText, OpError> {
        Ok(PolicyText {
            text: self.required(field, TEXT)?,
            queue_threshold: self.optional("queue_threshold", FRACTION)?,
        })
    }

    fn restore(&mut self) -> Result<Restore, OpError> {
        self.required("version", VERSION)?;
        Ok(Restore {
            model: self.required("model", UINT8)?,
            policy: self.policy_text("policy")?,
            capacities: Capacities {
                slots: self.required("slots", UINT32)?,
                classes: self.required("classes", UINT32)?,
                workers: self.required("workers", UINT32)?,
                endpoints: self.required("endpoints", UINT32)?,
                extension_blocks: self.required("extension_blocks", UINT32)?,
                attempts: self.required("attempts", UINT8)?,
                egress_groups: self.required("egress_groups", UINT16)?,
            },
            checkpoint: self.checkpoint()?,
            counts: [
                self.required("class_count", UINT64)?,
                self.required("worker_count", UINT64)?,
                self.required("endpoint_count", UINT64)?,
                self.required("request_count", UINT64)?,
            ],
        })
    }

    fn checkpoint(&mut self) -> Result<Checkpoint, OpError> {
        let gathered = self.optional("gathered", UINT32)?;
        let answers = self.optional("answers", ANSWERS)?;
        Ok(Checkpoint {
            now: Nanos(self.required("now_ns", UINT64)?),
            generation: self.required("generation", UINT64)?,
            draws: self.required("draws", UINT64)?,
            next_intake: self.required("next_intake", UINT64)?,
            dispatches: self.required("dispatches", UINT64)?,
            stale_events: self.required("stale_events", UINT64)?,
            unknown_names: self.required("unknown_names", UINT64)?,
            drain_deadline: self.optional("drain_end_ns", UINT64)?.map(Nanos),
            closing: answers.map(|slots| ClosingCheckpoint { gathered, slots }),
            holds_drained: self.required("holds_drained", FLAG)?,
            rooms: self.required("rooms", ROOMS)?,
            ring: self.required("ring", CLASSES)?,
            cursor: self.optional("cursor", UINT16)?.map(ClassIndex),
            holder: self.optional("holder", UINT16)?.map(ClassIndex),
            ..Checkpoint::default()
        })
    }

    fn restore_class(&mut self) -> Result<ClassCheckpoint, OpError> {
        let name = self.required("name", TEXT)?;
        let quantum = self.required("quantum", UINT64)?;
        let policy = ClassPolicy {
            order: self.required("order", ORDER)?,
            prefill_busy_threshold: self.optional("prefill_busy_threshold", UINT64)?,
            prefill_busy_threshold_frac: self.optional("prefill_busy_threshold_frac", FRACTION)?,
            busy_worker_ratio: self.optional("busy_worker_ratio", FRACTION)?,
            request_queue_limit_per_worker: self
                .optional("request_queue_limit_per_worker", UINT64)?,
            raw_isl_token_queue_limit_per_worker: self
                .optional("raw_isl_token_queue_limit_per_worker", UINT64)?,
            cached_token_queue_limit_per_worker: self
                .optional("cached_token_queue_limit_per_worker", UINT64)?,
            queue_timeout_ms: self.optional("queue_timeout_ms", UINT64)?,
            ..ClassPolicy::explicit(&name, quantum)
        };
        Ok(ClassCheckpoint {
            index: ClassIndex(self.required("index", UINT16)?),
            policy,
            draining: self.required("draining", FLAG)?,
            epoch: self.required("epoch", UINT8)?,
            deficit: self.required("deficit", UINT64)?,
            turn_open: self.required("turn_open", FLAG)?,
            remembered: self.optional("remembered", UINT32)?.map(SlotIndex),
            counters: ClassCounters {
                dispatched: self.required("dispatched", UINT64)?,
                charged_tokens: self.required("charged_tokens", UINT64)?,
                rejected: self.counts("rejected")?,
                expired: self.required("expired", UINT64)?,
                cancelled: self.required("cancelled", UINT64)?,
                failed: self.counts("failed")?,
                shutting_down: self.required("shutting_down", UINT64)?,
                requeued: self.required("requeued", UINT64)?,
            },
        })
    }

    fn counts<const N: usize>(&mut self, field: &'static str) -> Result<[u64; N], OpError> {
        let counts = self.required(field, COUNTS)?;
        let found = counts.len();
        let wanted = format!("a list of {N} counters");
        <[u64; N]>::try_from(counts)
            .map_err(|_| wrong(field, format!("a list of {found} items"), &wanted))
    }

    fn restore_worker(&mut self) -> Result<WorkerCheckpoint, OpError> {
        let taints = self.required("taints", TEXTS)?;
        Ok(WorkerCheckpoint {
            id: WorkerId(self.required("id", UINT64)?),
            first_rank: self.required("first_rank", UINT32)?,
            ranks: self.required("ranks", RANKS)?,
            max_batched_tokens: self.optional("max_batched_tokens", UINT64)?,
            taints: taints.into_iter().map(Box::from).collect(),
            overloaded: self.required("overloaded", FLAG)?,
            available: self.required("available", FLAG)?,
        })
    }

    fn restore_endpoint(&mut self) -> Result<EndpointCheckpoint, OpError> {
        let at = self.required("worker", ENDPOINT)?;
        Ok(EndpointCheckpoint {
            index: EndpointIndex(self.required("index", UINT32)?),
            endpoint: tollgate_arbiter::Endpoint::new(at.worker, at.rank),
            reported_tokens: self.required("reported_tokens", UINT64)?,
            shut: self.required("shut", FLAG)?,
            last_use: self.required("last_use", UINT64)?,
            dispatched: self.required("dispatched", UINT64)?,
            charged_tokens: self.required("charged_tokens", UINT64)?,
        })
    }

    fn restore_request(&mut self) -> Result<RequestCheckpoint, OpError> {
        let id = self.required("id", TICKET)?;
        let ticket = parse_ticket(&id).expect("it was read as a ticket");
        let hints = self.optional("hints", HINTS)?.unwrap_or_default();
        let hints = hints.iter().map(|hint| crate::scenario::hint_of(*hint));
        let allow = self.optional("allow", WORKERS)?;
        let taints = self.optional("require_taints", TEXTS)?;
        let prefilled = self.optional("prefilled", FLAG)?.unwrap_or(false);
        let holds = self.optional("holds", FLAG)?.unwrap_or(true);
        let impatience = self.optional("impatience", LIMIT_KIND)?;
        Ok(RequestCheckpoint {
            ticket,
            class: ClassIndex(self.required("class", UINT16)?),
            snapshot: CostSnapshot {
                raw: self.required("isl", UINT32)?,
                cached: self.required("cached", UINT32)?,
            },
            submitted_at: Nanos(self.required("at_ns", UINT64)?),
            key: self.required("key", KEY)?,
            intake: self.required("intake", UINT64)?,
            pin: self.optional("pin", UINT32)?.map(EndpointIndex),
            deadline: self.optional("deadline_ns", UINT64)?.map(Nanos),
            impatience: impatience.map(crate::scenario::limit_kind_of),
            attempt: self.optional("attempt", UINT8)?.unwrap_or(0),
            avoided: self.optional("avoided", ENDPOINTS)?.unwrap_or_default(),
            hints: hints.collect(),
            allow: allow.map(|ids| ids.into_iter().map(WorkerId).collect()),
            require_taints: taints
                .unwrap_or_default()
                .into_iter()
                .map(Box::from)
                .collect(),
            booking: self
                .optional("booked", BOOKED)?
                .map(|(number, tokens)| BookingCheckpoint {
                    index: EndpointIndex(number),
                    tokens,
                    prefilled,
                    holds,
                }),
        })
    }

    fn intake(&mut self) -> Result<Intake, OpError> {
        Ok(Intake {
            id: self.required("id", TICKET)?,
            at_ns: self.required("at_ns", UINT64)?,
            class: self.required("class", UINT16)?,
            isl: self.required("isl", UINT32)?,
            cached: self.optional("cached", UINT32)?.unwrap_or(0),
            hints: self.optional("hints", HINTS)?.unwrap_or_default(),
            strict_priority: self.optional("strict_priority", UINT32)?.unwrap_or(0),
            priority_jump: self.optional("priority_jump", FINITE)?.unwrap_or(0.0),
            pin: self.optional("pin", ENDPOINT)?,
            allow: self.optional("allow", WORKERS)?,
            require_taints: self.optional("require_taints", TEXTS)?.unwrap_or_default(),
            deadline_ns: self.optional("deadline_ns", UINT64)?,
            may_wait: self.optional("may_wait", FLAG)?.unwrap_or(true),
        })
    }

    fn amend(&mut self) -> Result<JournalOp, OpError> {
        let id = self.required("id", UINT64)?;
        let overloaded = self.optional("overloaded", FLAG)?;
        let available = self.optional("available", FLAG)?;
        let taints = self.optional("taints", TEXTS)?;
        let change = match (overloaded, available, taints) {
            (Some(overloaded), None, None) => Amendment::Overloaded(overloaded),
            (None, Some(available), None) => Amendment::Available(available),
            (None, None, Some(taints)) => Amendment::Taints(taints),
            _ => {
                let wanted = "one of `overloaded`, `available` and `taints`";
                return Err(OpError::Missing {
                    field: "overloaded",
                    wanted: wanted.to_owned(),
                });
            }
        };
        Ok(JournalOp::Amend { id, change })
    }

    fn decided(&mut self) -> Result<Decided, OpError> {
        let event = self.required("event", TEXT)?;
        let id = self.required("id", TICKET)?;
        Ok(match event.as_str() {
            "dispatched" => Decided::Dispatched {
                id,
                worker: self.required("worker", ENDPOINT)?,
                attempt: self.required("attempt", UINT32)?,
                deficit: self.required("deficit", UINT64)?,
            },
            "requeued" => Decided::Requeued { id },
            "rejected" => Decided::Rejected {
                id,
                limit_kind: self.required("limit_kind", LIMIT_KIND)?,
                current: self.required("current", UINT64)?,
                limit: self.required("limit", UINT64)?,
                workers: self.required("workers", UINT64)?,
            },
            "failed" => Decided::Failed {
                id,
                reason: self.required("reason", REASON)?,
            },
            "expired" => Decided::Expired { id },
            "cancelled" => Decided::Cancelled { id },
            "shutting_down" => Decided::ShuttingDown { id },
            _ => {
                let wanted = "\"dispatched\", \"requeued\", \"rejected\", \"failed\", \"expired\", \
                              \"cancelled\" or \"shutting_down\"";
                return Err(wrong("event", format!("{event:?}"), wanted));
            }
        })
    }
}
