//! A strict reader of both text forms.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Form;

/// What an exposition says.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    /// Kinds by family.
    pub(super) families: BTreeMap<String, String>,
    /// Values by series.
    pub(super) series: BTreeMap<String, f64>,
    /// Bounds and values of histograms, by series without bounds.
    buckets: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Exposition {
    /// The value of a series.
    pub(super) fn value(&self, series: &str) -> f64 {
        let found = self.series.get(series);
        *found.unwrap_or_else(|| panic!("{series} is not among {:#?}", self.series.keys()))
    }

    /// Takes a sample in. The bound of a histogram's bucket comes last and in one way of writing.
    fn add(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let (bound, others): (Vec<_>, Vec<_>) = labels.iter().partition(|(key, _)| *key == "le");
        let mut words: Vec<String> = others
            .iter()
            .map(|(key, value)| format!("{key}=\"{value}\""))
            .collect();
        if let [(_, bound)] = bound.as_slice() {
            let bound: f64 = bound.parse().expect("a number");
            words.push(format!("le=\"{bound}\""));
            let buckets = self
                .buckets
                .entry(series(name, &words[..others.len()]))
                .or_default();
            buckets.push((bound, value));
        }
        let series = series(name, &words);
        assert_eq!(
            self.series.insert(series.clone(), value),
            None,
            "{series}: a second time"
        );
    }

    /// Buckets rise, and the last one holds everything.
    fn check_histograms(&self) {
        for (series, buckets) in &self.buckets {
            assert!(
                buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
                "{series}"
            );
            let last = buckets.last().expect("there is one");
            assert_eq!(last.0, f64::INFINITY, "{series}");
            assert_eq!(
                last.1,
                self.value(&series.replacen("_bucket", "_count", 1)),
                "{series}"
            );
        }
    }

    /// Names of samples that there may be.
    pub(super) fn sample_names(&self) -> BTreeSet<String> {
        let names = self.families.iter().flat_map(|(name, kind)| {
            let suffixes: &[&str] = match kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            suffixes.iter().map(move |suffix| format!("{name}{suffix}"))
        });
        names.collect()
    }
}

/// Reads a text, or panics where it breaks a rule of its form.
pub(super) fn check(text: &str, form: Form) -> Exposition {
    let is_openmetrics = form == Form::OpenMetrics;
    assert!(text.ends_with('\n'), "the last line has no end");
    let mut lines: Vec<&str> = text.lines().collect();
    if is_openmetrics {
        assert_eq!(lines.pop(), Some("# EOF"));
    }
    let mut read = Exposition::default();
    let mut helped = String::new();
    let mut family = String::new();
    for line in lines {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(help.ends_with('.') && !help.ends_with(".."), "{line}");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert_eq!(name, helped, "its help stands before it");
            assert!(is_name(name) && name.starts_with("tollgate_"), "{line}");
            let has_total = name.ends_with("_total");
            assert_eq!(has_total, kind == "counter" && !is_openmetrics, "{line}");
            let before = read.families.insert(name.to_owned(), kind.to_owned());
            assert_eq!(before, None, "{line}: a second time");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').expect(line);
            assert!(is_openmetrics && name == family, "{line}");
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect(line);
            let value: f64 = value.parse().expect(line);
            let kind = &read.families[&family];
            let (name, labels) = read_series(series);
            let suffix = name.strip_prefix(family.as_str()).expect(line);
            let expected: &[&str] = match (kind.as_str(), is_openmetrics) {
                ("counter", true) => &["_total"],
                ("info", true) => &["_info"],
                ("histogram", _) => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(expected.contains(&suffix), "{line} is of {family}");
            assert!(kind == "gauge" || value >= 0.0, "{line}");
            read.add(name, &labels, value);
        }
    }
    read.check_histograms();
    read
}

fn is_name(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_legal) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn series(name: &str, labels: &[String]) -> String {
    if labels.is_empty() {
        return name.to_owned();
    }
    format!("{name}{{{}}}", labels.join(","))
}

/// A series' name and its labels, with the values as they are written.
fn read_series(series: &str) -> (&str, Vec<(&str, &str)>) {
    let Some((name, labels)) = series.split_once('{') else {
        assert!(is_name(series), "{series}");
        return (series, Vec::new());
    };
    assert!(is_name(name), "{series}");
    let mut rest = labels.strip_suffix('}').expect(series);
    let mut keys = BTreeSet::new();
    let mut read = Vec::new();
    while !rest.is_empty() {
        let (key, value) = rest.split_once("=\"").expect(series);
        assert!(is_name(key) && keys.insert(key), "{series}");
        let end = end_of_value(value).unwrap_or_else(|| panic!("{series}: a value has no end"));
        read.push((key, &value[..end]));
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    (name, read)
}

/// Where the quotation mark behind a value is; a backslash takes the next character along.
fn end_of_value(value: &str) -> Option<usize> {
    let mut characters = value.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some(at),
            '\\' => {
                let (_, escaped) = characters.next()?;
                assert!(matches!(escaped, '\\' | '"' | 'n'), "{value}");
            }
            _ => {}
        }
    }
    None
}
