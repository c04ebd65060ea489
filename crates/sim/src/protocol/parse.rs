//! One line to one operation, strictly.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::error::Category;

use super::{Endpoint, HINTS_MAX, Hint, Op, OpError, OpName, RANKS_MAX, Submission, WorkerRecord};

impl Op {
    /// Reads one line.
    ///
    /// # Errors
    ///
    /// If the line is not one JSON object; if an operation or a field is unknown, repeated or
    /// missing; if a value is of the wrong type (`null` included) or out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_sim::protocol::Op;
    ///
    /// let error = Op::parse(r#"{"op": "submit", "id": "a", "isl": -1}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "field `isl` is -1; it must be a whole number from 0 to 4294967295"
    /// );
    /// ```
    pub fn parse(line: &str) -> Result<Self, OpError> {
        let mut fields = Fields::read(line)?;
        let op = fields.op(RANKS, POSITIVE)?;
        fields.finish()?;
        Ok(op)
    }
}

impl Fields {
    /// The operation of a scenario that they say; a worker may have as many `ranks` and so large a `batch`.
    pub(super) fn op(&mut self, ranks: Kind<u32>, batch: Kind<u64>) -> Result<Op, OpError> {
        let fields = self;
        Ok(match fields.op {
            OpName::Worker => Op::Worker(fields.worker_record(ranks, batch)?),
            OpName::RemoveWorker => Op::RemoveWorker {
                id: fields.required("id", UINT64)?,
            },
            OpName::Load => Op::Load {
                worker: fields.required("worker", ENDPOINT)?,
                tokens: fields.required("tokens", UINT64)?,
            },
            OpName::Shut => Op::Shut {
                worker: fields.required("worker", ENDPOINT)?,
            },
            OpName::Open => Op::Open {
                worker: fields.required("worker", ENDPOINT)?,
            },
            OpName::Submit => Op::Submit(fields.submission()?),
            OpName::PrefillDone => {
                let (id, attempt) = fields.attempt()?;
                Op::PrefillDone { id, attempt }
            }
            OpName::Complete => {
                let (id, attempt) = fields.attempt()?;
                Op::Complete { id, attempt }
            }
            OpName::Requeue => {
                let (id, attempt) = fields.attempt()?;
                Op::Requeue { id, attempt }
            }
            OpName::Cancel => Op::Cancel {
                id: fields.required("id", TEXT)?,
            },
            OpName::Advance => Op::Advance {
                us: fields.required("us", UINT64)?,
            },
            OpName::Arbitrate => Op::Arbitrate {
                max: fields.optional("max", UINT64)?,
            },
            OpName::Reload => Op::Reload {
                path: fields.required("policy", TEXT)?,
            },
            OpName::Stop => Op::Stop {
                drain_us: fields.optional("drain_us", UINT64)?.unwrap_or(0),
            },
            OpName::State => Op::State,
            op => return Err(OpError::OfJournal { op }),
        })
    }
}

/// The object's fields as written, repeated ones included.
struct Raw(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Raw(fields))
            }
        }
        deserializer.deserialize_map(RawVisitor)
    }
}

/// How a field's value is read: `None` if it is not what `wanted` says.
pub(super) struct Kind<T> {
    pub(super) read: fn(&Value) -> Option<T>,
    pub(super) wanted: &'static str,
}

pub(super) const UINT64: Kind<u64> = Kind {
    read: Value::as_u64,
    wanted: "a whole number from 0 to 18446744073709551615",
};
pub(super) const UINT32: Kind<u32> = Kind {
    read: read_u32,
    wanted: "a whole number from 0 to 4294967295",
};
pub(super) const POSITIVE: Kind<u64> = Kind {
    read: |value| value.as_u64().filter(|number| *number > 0),
    wanted: "a whole number from 1 to 18446744073709551615",
};
const RANKS: Kind<u32> = Kind {
    read: |value| read_u32(value).filter(|ranks| (1..=RANKS_MAX).contains(ranks)),
    wanted: "a whole number from 1 to 4096",
};
const _: () = assert!(RANKS_MAX == 4_096, "as RANKS says");
pub(super) const FINITE: Kind<f64> = Kind {
    read: |value| value.as_f64().filter(|number| number.is_finite()),
    wanted: "a finite number",
};
pub(super) const FLAG: Kind<bool> = Kind {
    read: Value::as_bool,
    wanted: "true or false",
};
pub(super) const TEXT: Kind<String> = Kind {
    read: |value| value.as_str().map(str::to_owned),
    wanted: "a string",
};
pub(super) const TEXTS: Kind<Vec<String>> = Kind {
    read: |value| list(value, TEXT.read),
    wanted: "a list of strings",
};
pub(super) const WORKERS: Kind<Vec<u64>> = Kind {
    read: |value| list(value, Value::as_u64),
    wanted: "a list of worker ids, whole numbers from 0 to 18446744073709551615",
};
pub(super) const ENDPOINT: Kind<Endpoint> = Kind {
    read: |value| match value.as_array()?.as_slice() {
        [worker, rank] => Some(Endpoint::new(worker.as_u64()?, read_u32(rank)?)),
        _ => None,
    },
    wanted: "[worker, rank], two whole numbers, the rank up to 4294967295",
};
pub(super) const HINTS: Kind<Vec<Hint>> = Kind {
    read: |value| list(value, read_hint).filter(|hints| hints.len() <= HINTS_MAX),
    wanted: "a list of at most 16 hints [worker, rank, cached], each three whole numbers, \
             the last two up to 4294967295",
};

pub(super) fn read_u32(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn read_hint(value: &Value) -> Option<Hint> {
    match value.as_array()?.as_slice() {
        [worker, rank, cached] => Some(Hint {
            endpoint: Endpoint::new(worker.as_u64()?, read_u32(rank)?),
            cached: read_u32(cached)?,
        }),
        _ => None,
    }
}

pub(super) fn list<T>(value: &Value, read: fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

/// What was found, in at most about 60 characters.
fn shown(value: &Value) -> String {
    if let Some(items) = value.as_array().filter(|items| items.len() > HINTS_MAX) {
        return format!("a list of {} items", items.len());
    }
    shortened(&value.to_string())
}

/// At most 60 characters of `text`, and what shows that there is more.
pub(super) fn shortened(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

/// The fields of one operation; each is taken once, and none may be left over.
pub(super) struct Fields {
    pub(super) op: OpName,
    left: Vec<(String, Value)>,
    known: Vec<&'static str>,
}

impl Fields {
    pub(super) fn read(line: &str) -> Result<Self, OpError> {
        let Raw(mut left) = serde_json::from_str(line).map_err(|error| syntax(&error))?;
        for (index, (field, _)) in left.iter().enumerate() {
            if left[..index].iter().any(|(earlier, _)| earlier == field) {
                return Err(OpError::Repeated {
                    field: shortened(field),
                });
            }
        }
        let Some(place) = left.iter().position(|(field, _)| field == "op") else {
            let wanted = "the name of an operation, such as \"state\"".to_owned();
            return Err(OpError::Missing {
                field: "op",
                wanted,
            });
        };
        let (_, found) = left.remove(place);
        let mut known = OpName::ALL.into_iter().chain(OpName::OF_JOURNALS);
        let op = known.find(|op| found.as_str() == Some(op.as_str()));
        let op = op.ok_or_else(|| OpError::UnknownOp {
            found: shown(&found),
        })?;
        Ok(Self {
            op,
            left,
            known: vec!["op"],
        })
    }

    pub(super) fn optional<T>(
        &mut self,
        field: &'static str,
        kind: Kind<T>,
    ) -> Result<Option<T>, OpError> {
        self.known.push(field);
        let Some(place) = self.left.iter().position(|(name, _)| name == field) else {
            return Ok(None);
        };
        let (_, value) = self.left.remove(place);
        match (kind.read)(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(wrong(field, shown(&value), kind.wanted)),
        }
    }

    pub(super) fn required<T>(&mut self, field: &'static str, kind: Kind<T>) -> Result<T, OpError> {
        let wanted = kind.wanted;
        self.optional(field, kind)?.ok_or_else(|| OpError::Missing {
            field,
            wanted: wanted.to_owned(),
        })
    }

    fn attempt(&mut self) -> Result<(String, Option<u32>), OpError> {
        Ok((
            self.required("id", TEXT)?,
            self.optional("attempt", UINT32)?,
        ))
    }

    fn worker_record(
        &mut self,
        ranks: Kind<u32>,
        batch: Kind<u64>,
    ) -> Result<WorkerRecord, OpError> {
        let record = WorkerRecord {
            id: self.required("id", UINT64)?,
            ranks: self.optional("ranks", ranks)?.unwrap_or(1),
            first_rank: self.optional("first_rank", UINT32)?.unwrap_or(0),
            max_batched_tokens: self.optional("max_batched_tokens", batch)?,
            taints: self.optional("taints", TEXTS)?.unwrap_or_default(),
            overloaded: self.optional("overloaded", FLAG)?.unwrap_or(false),
            available: self.optional("available", FLAG)?.unwrap_or(true),
        };
        if record.first_rank.checked_add(record.ranks - 1).is_none() {
            let ranks = record.ranks;
            let wanted = format!("at most {} with {ranks} ranks", u32::MAX - (ranks - 1));
            return Err(wrong("first_rank", record.first_rank.to_string(), &wanted));
        }
        Ok(record)
    }

    fn submission(&mut self) -> Result<Submission, OpError> {
        Ok(Submission {
            id: self.required("id", TEXT)?,
            family: self.optional("family", TEXT)?,
            isl: self.required("isl", UINT32)?,
            cached: self.optional("cached", UINT32)?.unwrap_or(0),
            hints: self.optional("hints", HINTS)?.unwrap_or_default(),
            strict_priority: self.optional("strict_priority", UINT32)?.unwrap_or(0),
            priority_jump: self.optional("priority_jump", FINITE)?.unwrap_or(0.0),
            pin: self.optional("pin", ENDPOINT)?,
            allow: self.optional("allow", WORKERS)?,
            require_taints: self.optional("require_taints", TEXTS)?.unwrap_or_default(),
            deadline_us: self.optional("deadline_us", UINT64)?,
            may_wait: self.optional("may_wait", FLAG)?.unwrap_or(true),
        })
    }

    pub(super) fn finish(self) -> Result<(), OpError> {
        match self.left.into_iter().next() {
            None => Ok(()),
            Some((field, _)) => Err(OpError::UnknownField {
                op: self.op,
                field: shortened(&field),
                known: self.known,
            }),
        }
    }
}

pub(super) fn wrong(field: &'static str, found: String, wanted: &str) -> OpError {
    OpError::Wrong {
        field,
        found,
        wanted: wanted.to_owned(),
    }
}

fn syntax(error: &serde_json::Error) -> OpError {
    match error.classify() {
        Category::Data => OpError::NotAnObject,
        Category::Eof => OpError::Cut {
            column: error.column(),
        },
        Category::Io | Category::Syntax => {
            let text = error.to_string();
            let problem = text
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned();
            OpError::Syntax {
                problem,
                column: error.column(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn error(line: &str) -> String {
        Op::parse(line).unwrap_err().to_string()
    }

    #[test]
    fn s13_every_operation_is_read_back_as_it_was_written() {
        let lines = [
            r#"{"op":"worker","id":18446744073709551615}"#,
            r#"{"op":"worker","id":1,"ranks":2,"first_rank":4294967294,"max_batched_tokens":8192,"taints":["a","b"],"overloaded":true,"available":false}"#,
            r#"{"op":"remove_worker","id":7}"#,
            r#"{"op":"load","worker":[7,1],"tokens":18446744073709551615}"#,
            r#"{"op":"shut","worker":[7,1]}"#,
            r#"{"op":"open","worker":[7,1]}"#,
            r#"{"op":"submit","id":"a","isl":4294967295}"#,
            r#"{"op":"submit","id":"a","family":"f","isl":9,"cached":4,"hints":[[1,0,3],[1,1,9]],"strict_priority":4294967295,"priority_jump":-2.5,"pin":[1,0],"allow":[1,2],"require_taints":["t"],"deadline_us":5,"may_wait":false}"#,
            r#"{"op":"submit","id":"a","isl":0,"allow":[]}"#,
            r#"{"op":"prefill_done","id":"a"}"#,
            r#"{"op":"complete","id":"a","attempt":2}"#,
            r#"{"op":"requeue","id":"a","attempt":1}"#,
            r#"{"op":"cancel","id":"a"}"#,
            r#"{"op":"advance","us":1}"#,
            r#"{"op":"arbitrate"}"#,
            r#"{"op":"arbitrate","max":0}"#,
            r#"{"op":"reload","policy":"p.yaml"}"#,
            r#"{"op":"stop"}"#,
            r#"{"op":"stop","drain_us":9}"#,
            r#"{"op":"state"}"#,
        ];
        for line in lines {
            let op = Op::parse(line).unwrap();
            assert_eq!(op.to_json(), line);
            assert!(
                line.contains(&format!("\"op\":\"{}\"", op.name().as_str())),
                "{line}"
            );
        }
    }

    #[test]
    fn s13_defaults_may_be_written_out() {
        let short = Op::parse(r#"{"op":"submit","id":"a","isl":1}"#).unwrap();
        let long = r#"{"op":"submit","id":"a","isl":1,"cached":0,"hints":[],"strict_priority":0,"priority_jump":0,"require_taints":[],"may_wait":true}"#;
        assert_eq!(Op::parse(long).unwrap(), short);
        assert_eq!(short, Op::Submit(Submission::new("a", 1)));
        let worker = r#"{"op":"worker","id":3,"ranks":1,"first_rank":0,"taints":[],"overloaded":false,"available":true}"#;
        assert_eq!(Op::parse(worker).unwrap(), Op::Worker(WorkerRecord::new(3)));
    }

    #[test]
    fn s13_a_line_that_is_no_object_says_so() {
        assert_eq!(
            error(r#"{"op": "state""#),
            "the line ends before its JSON object does (after column 14)"
        );
        assert_eq!(
            error(""),
            "the line ends before its JSON object does (after column 0)"
        );
        assert_eq!(
            error("state"),
            "not JSON: expected value at column 1; a line is one JSON object"
        );
        assert_eq!(
            error(r#"{"op": "state"} x"#),
            "not JSON: trailing characters at column 17; a line is one JSON object"
        );
        assert_eq!(
            error(r#"["state"]"#),
            r#"a line is one JSON object such as {"op": "state"}"#
        );
        assert!(error(&"[".repeat(1 << 16)).starts_with("a line is one JSON object"));
        let deep = format!("{{\"op\": \"cancel\", \"id\": {}", "[".repeat(1 << 16));
        assert!(error(&deep).starts_with("not JSON: recursion limit exceeded"));
    }

    #[test]
    fn s13_unknown_repeated_and_missing_fields_are_named() {
        assert!(
            error(r#"{"op": "sumbit"}"#).starts_with(r#"unknown op "sumbit"; known are `worker`"#)
        );
        assert!(error(r#"{"op": 3}"#).starts_with("unknown op 3; known are"));
        assert_eq!(
            error(r#"{"id": "a"}"#),
            r#"field `op` is missing; it is the name of an operation, such as "state""#
        );
        assert_eq!(
            error(r#"{"op": "cancel", "id": "a", "us": 1}"#),
            "op `cancel` has no field `us`; it has `op`, `id`"
        );
        assert_eq!(
            error(r#"{"op": "cancel"}"#),
            "field `id` is missing; it is a string"
        );
        assert_eq!(
            error(r#"{"op": "cancel", "id": "a", "id": "a"}"#),
            "field `id` stands twice; each field may stand once"
        );
    }

    #[test]
    fn s2_4_wrong_types_and_ranges_are_named_with_what_was_found() {
        let submit = |field: &str| error(&format!(r#"{{"op":"submit","id":"a",{field}}}"#));
        for (field, found) in [
            (r#""isl":4294967296"#, "4294967296"),
            (r#""isl":-1"#, "-1"),
            (r#""isl":1.5"#, "1.5"),
            (r#""isl":1e30"#, "1e+30"),
            (r#""isl":"5""#, "\"5\""),
            (r#""isl":null"#, "null"),
        ] {
            assert_eq!(
                submit(field),
                format!("field `isl` is {found}; it must be a whole number from 0 to 4294967295")
            );
        }
        assert!(submit(r#""isl":1,"priority_jump":1e999"#).starts_with("not JSON: number out of"));
        assert!(submit(r#""isl":1,"priority_jump":NaN"#).starts_with("not JSON"));
        assert!(
            submit(r#""isl":1,"pin":[1]"#).starts_with("field `pin` is [1]; it must be [worker")
        );
        assert!(
            submit(r#""isl":1,"allow":3"#).starts_with("field `allow` is 3; it must be a list")
        );
        assert!(submit(r#""isl":1,"may_wait":0"#).contains("it must be true or false"));
        for ranks in ["0", "4097", "true"] {
            assert_eq!(
                error(&format!(r#"{{"op":"worker","id":1,"ranks":{ranks}}}"#)),
                format!("field `ranks` is {ranks}; it must be a whole number from 1 to 4096")
            );
        }
        assert!(
            error(r#"{"op":"worker","id":1,"ranks":2,"first_rank":4294967295}"#)
                .contains("must be at most 4294967294 with 2 ranks")
        );
        assert!(error(r#"{"op":"worker","id":1,"max_batched_tokens":0}"#).contains("from 1 to"));
        let long = format!(r#"{{"op":"cancel","id":[{:?}]}}"#, "é".repeat(500));
        assert!(error(&long).len() < 250, "{}", error(&long));
        let name = "é".repeat(1 << 16);
        for long in [
            format!(r#"{{"op":"cancel","id":"a","{name}":1}}"#),
            format!(r#"{{"op":"cancel","{name}":1,"{name}":1}}"#),
        ] {
            assert!(error(&long).len() < 250, "{}", error(&long));
        }
    }

    #[test]
    fn s2_3_at_most_16_hints() {
        let with = |count: usize| {
            let hints = vec!["[1,0,5]"; count].join(",");
            Op::parse(&format!(
                r#"{{"op":"submit","id":"a","isl":1,"hints":[{hints}]}}"#
            ))
        };
        assert!(with(HINTS_MAX).is_ok());
        let error = with(HINTS_MAX + 1).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "field `hints` is a list of 17 items; it must be a list of at most 16"
            )
        );
    }
}
