//! Every rule of this package, over the repository that it is part of.

use tollgate_tidy::tree::Tree;
use tollgate_tidy::{assert_none, docs, layout, manifest, modules, rust, text};

fn tree() -> Tree {
    Tree::of_this_repository().expect("the repository can be read")
}

#[test]
fn texts_are_clean() {
    assert_none(tree().files.iter().flat_map(text::check).collect());
}

#[test]
fn rust_files_are_short_documented_and_safe_to_call() {
    assert_none(tree().with_extension("rs").flat_map(rust::check).collect());
}

#[test]
fn every_source_file_belongs_to_a_target() {
    assert_none(modules::check(&tree()));
}

#[test]
fn manifests_inherit_and_point_one_way() {
    assert_none(manifest::check(&tree()));
}

#[test]
fn only_known_entries_stand_at_the_top() {
    assert_none(layout::check(&tree()));
}

#[test]
fn links_lead_somewhere() {
    assert_none(docs::check_links(&tree()));
}

#[test]
fn every_document_is_found_from_the_readme() {
    assert_none(docs::check_reachable(&tree()));
}

#[test]
fn code_blocks_are_closed_and_say_their_language() {
    assert_none(docs::check_blocks(&tree()));
}

#[test]
fn cited_rules_exist() {
    assert_none(docs::check_rule_numbers(&tree()));
}

#[test]
fn every_package_is_on_the_map() {
    assert_none(docs::check_map(&tree()));
}

#[test]
fn commands_in_documents_name_what_exists() {
    assert_none(docs::check_commands(&tree()));
}
