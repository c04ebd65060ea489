//! The pages of reports and comparisons: well-formed, complete in themselves, safe from names.

use roxmltree::{Document, ParsingOptions};
use tollgate_report::bench::{Arm, BenchReport, Comparison};

use crate::made_up;

fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let page = Document::parse_with_options(html, options).unwrap();
    for node in page.descendants().filter(|node| node.is_element()) {
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!["src", "href"].contains(&name) && !name.starts_with("on"));
            if ["d", "x", "y", "viewBox", "data-x", "data-y"].contains(&name) {
                assert!(
                    !value.contains("NaN") && !value.contains("inf"),
                    "{name}={value}"
                );
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
fn pages_are_well_formed_and_complete() {
    let html = made_up::report(1, 1.0).html();
    let page = parse(&html);
    assert_eq!((count(&page, "h1"), count(&page, "h2")), (1, 2));
    assert_eq!(count(&page, "table"), 3 + 1 + 3, "one arm has classes");
    // Three metrics of two arms, one of shares; for each arm one by percentile and three over time.
    assert_eq!(count(&page, "figure"), 3 + 1 + 3 * 4);
    assert!(!html.contains("nothing to show"));
    let comparison = Comparison::of(&made_up::report(1, 1.0), &made_up::report(2, 1.3)).html();
    let page = parse(&comparison);
    assert_eq!((count(&page, "table"), count(&page, "figure")), (2, 3));
    for text in [&html, &comparison] {
        let rest = text.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for needle in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!rest.contains(needle), "{needle}");
        }
    }
}

/// What a hostile name may not do, in all forms.
fn assert_harmless(text: &str, html: &str) {
    let page = parse(html);
    assert_eq!((count(&page, "script"), count(&page, "style")), (1, 1));
    assert!(!html.contains(['\u{202e}', '\u{0}', '\u{7}']));
    assert!(!text.contains(['\u{202e}', '\u{0}', '\u{7}', '\r', '\t']));
    assert!(!text.lines().any(|line| line.trim() == "injected"));
}

#[test]
fn hostile_names_stay_in_their_cell_and_are_escaped() {
    let names = [
        "<script>alert(1)</script>".to_owned(),
        "\"' onload='x' & ]]> </svg></title>".to_owned(),
        "\u{202e}אבג\u{0}\u{7}\u{fffe}\n\r\t\ninjected\n".to_owned(),
        "n".repeat(10_000),
    ];
    for name in &names {
        let mut report = made_up::report(1, 1.0);
        report.title.clone_from(name);
        report.command = name.replace(['\n', '\r'], " ");
        report.machine.push(made_up::fact(name, name));
        for suite in &mut report.suites {
            suite.name.insert_str(0, name);
            suite.about.clone_from(name);
            suite.notes.push(name.clone());
            for arm in &mut suite.arms {
                arm.name.insert_str(0, name);
                arm.settings.push(made_up::fact(name, name));
                arm.notes.push(name.clone());
                arm.metrics[0].name.clone_from(name);
                for class in &mut arm.classes {
                    class.name.insert_str(0, name);
                }
            }
        }
        assert_harmless(&report.text(), &report.html());
        let read = BenchReport::from_json(&report.json().unwrap()).unwrap();
        assert_eq!(read.title, *name, "JSON alone holds it whole");
        let comparison = Comparison::of(&made_up::report(1, 1.0), &report);
        assert_harmless(&comparison.text(), &comparison.html());
        let comparison = Comparison::of(&report, &report);
        assert_harmless(&comparison.text(), &comparison.html());
    }
}

#[test]
fn little_or_nothing_is_told_as_such() {
    let mut report = made_up::report(1, 1.0);
    report.suites[0].arms.clear();
    report.suites[1].arms = vec![Arm {
        name: "empty".to_owned(),
        ..Arm::default()
    }];
    let told = |report: &BenchReport| {
        let page = report.html();
        parse(&page);
        assert_eq!(page.matches("<figure").count(), 0);
        assert!(!report.text().contains("NaN"));
        parse(&Comparison::of(report, report).html());
    };
    told(&report);
    report.suites.clear();
    told(&report);
}
