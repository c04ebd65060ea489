//! The page: well-formed, complete in itself, safe from names, and sensible when there is little.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use roxmltree::{Document, ParsingOptions};
use tollgate_report::replay::{Count, ReplayReport, ReplayRun, Timeline, Totals};
use tollgate_report::{Fact, Quantiles, Recording};

mod made_up;

/// Parses the page as XML and checks what holds for every page.
fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let page = Document::parse_with_options(html, options).unwrap();
    for node in page.descendants().filter(|node| node.is_element()) {
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(
                !["src", "href"].contains(&name) && !name.starts_with("on"),
                "{name}"
            );
            let is_number = |part: &&str| ["NaN", "inf", "-inf"].contains(part);
            if ["d", "x", "y", "viewBox", "data-x", "data-y"].contains(&name) {
                let split = value.split(['M', 'L', 'h', 'Z', ' ']);
                assert_eq!(split.filter(is_number).count(), 0, "{name}={value}");
            }
        }
    }
    page
}

fn count(page: &Document<'_>, tag: &str) -> usize {
    let nodes = page.descendants();
    nodes.filter(|node| node.tag_name().name() == tag).count()
}

#[test]
fn the_page_is_well_formed_and_says_what_it_is() {
    let html = made_up::report(4, 60).html();
    let page = parse(&html);
    assert_eq!(page.root_element().attribute("lang"), Some("en"));
    assert_eq!(count(&page, "h1"), 1);
    assert_eq!(count(&page, "table"), 3);
    for node in page.descendants() {
        match node.tag_name().name() {
            "table" => {
                let heads = node
                    .descendants()
                    .filter(|n| n.attribute("scope") == Some("col"));
                assert!(heads.count() > 5);
                assert!(
                    node.descendants()
                        .any(|n| n.attribute("scope") == Some("row"))
                );
            }
            "svg" if node.attribute("class") == Some("chart") => {
                let text = |name: &str| {
                    let child = node.children().find(|n| n.tag_name().name() == name);
                    child.and_then(|n| n.text()).map_or(0, str::len)
                };
                assert!(text("title") > 0 && text("desc") > 0);
            }
            _ => {}
        }
    }
    // Bars, queues, shares, load and two kinds of curves, and the waits of four classes, for each run.
    assert_eq!(count(&page, "figure"), 2 * (6 + 4));
}

#[test]
fn the_page_loads_nothing() {
    let html = made_up::report(4, 60).html();
    let rest = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for needle in [
        "http://", "https://", "src=", "href=", "@import", "url(", "fetch(",
    ] {
        assert!(!rest.contains(needle), "{needle}");
    }
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    let (a, b) = (made_up::report(5, 60), made_up::report(5, 60));
    assert_eq!(a.html(), b.html());
    assert_eq!(a.text(), b.text());
    assert_eq!(a.json().unwrap(), b.json().unwrap());
}

#[test]
fn a_large_report_is_below_two_megabytes_and_says_what_it_leaves_out() {
    let html = made_up::report(20, 400).html();
    assert!(html.len() < 2_000_000, "{}", html.len());
    let page = parse(&html);
    assert!(html.contains("13 others, summed"));
    assert!(html.contains("The 13 classes that were charged the fewest tokens are left out"));
    assert_eq!(count(&page, "figure"), 2 * (6 + 7));
}

#[test]
fn names_are_escaped_cut_and_stripped_wherever_they_stand() {
    let names = [
        "<script>alert(1)</script>".to_owned(),
        "\"' onload='x' & ]]> </svg></title>".to_owned(),
        "\u{202e}אבג\u{0}\u{7}\u{fffe}\n\r\t".to_owned(),
        "n".repeat(10_000),
    ];
    let mut report = made_up::report(4, 20);
    for (at, name) in names.iter().enumerate() {
        report.title = name.clone();
        report.command = name.clone();
        report.trace.push(Fact {
            name: name.clone(),
            value: name.clone(),
        });
        for run in &mut report.runs {
            run.policy = format!("{name}{}", run.policy.len());
            run.notes.push(name.clone());
            run.classes[at].name = name.clone();
            run.classes[at].failed.push(Count {
                code: name.clone(),
                count: 1,
            });
            run.classes[at].wait = Recording::new(name, name, name);
            run.classes[at].wait.record(u64::MAX);
            run.timeline.classes[at].name = name.clone();
            run.workers[at].name = name.clone();
            run.timeline.workers[at].name = name.clone();
        }
        let html = report.html();
        let page = parse(&html);
        assert_eq!((count(&page, "script"), count(&page, "style")), (1, 1));
        assert!(!html.contains(['\u{202e}', '\u{0}', '\u{7}']));
        assert!(!html.contains(&"n".repeat(2_001)));
        let text = report.text();
        assert!(!text.contains(['\u{202e}', '\u{0}', '\u{7}', '\r', '\t']));
        let longest = text.lines().skip_while(|line| *line != "Classes");
        assert!(longest.map(|line| line.chars().count()).max() < Some(600));
        report.json().unwrap();
    }
}

fn empty_run() -> ReplayRun {
    ReplayRun {
        policy: String::new(),
        settings: Vec::new(),
        totals: Totals::default(),
        classes: Vec::new(),
        workers: Vec::new(),
        timeline: Timeline::default(),
        notes: Vec::new(),
    }
}

fn told(report: &ReplayReport) {
    let html = report.html();
    parse(&html);
    let text = report.text();
    for number in ["NaN", "inf ", "inf%"] {
        assert!(!text.contains(number), "{text}");
        assert!(!html.replace("Infinity", "").contains(number), "{number}");
    }
    report.json().unwrap();
}

#[test]
fn little_or_nothing_is_told_as_such() {
    let nothing = ReplayReport {
        title: String::new(),
        command: String::new(),
        trace: Vec::new(),
        runs: Vec::new(),
    };
    told(&nothing);
    told(&ReplayReport {
        runs: vec![empty_run(), empty_run()],
        ..nothing
    });
    for steps in [0, 1] {
        told(&made_up::report(1, steps));
        let mut report = made_up::report(2, steps);
        report.runs[0].totals.finish_ns = 0;
        report.runs[0].timeline.step_ns = 0;
        report.runs[1].timeline = Timeline::default();
        told(&report);
    }
    assert!(made_up::report(2, 0).html().contains("nothing to show"));
}

#[test]
fn numbers_that_are_none_leave_gaps() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1.0];
    for value in odd {
        let mut report = made_up::report(2, 30);
        let run = &mut report.runs[0];
        run.classes[0].entitled_tokens = value;
        run.timeline.classes[0].entitled_tokens[7] = value;
        run.timeline.workers[0].busy[7] = value;
        run.timeline.classes[0].wait[7] = Quantiles {
            count: 1,
            p50_ns: 0,
            p99_ns: u64::MAX,
            max_ns: u64::MAX,
        };
        run.timeline.classes[1].served_tokens[7] = u64::MAX;
        told(&report);
    }
}
