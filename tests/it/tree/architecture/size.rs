//! How large a file and a function may grow: past these it is two ideas.

use super::source::Source;

/// Lines of code in a file, tests and comments aside.
const FILE: usize = 400;
/// Lines of a function's body.
const FUNCTION: usize = 60;

pub fn check(source: &Source) -> Vec<String> {
    let mut violations = Vec::new();
    if source.code_lines > FILE {
        violations.push(format!("src/{} has {} lines of code, more than {FILE}", source.file, source.code_lines));
    }
    for function in source.functions.iter().filter(|function| function.lines > FUNCTION) {
        violations.push(format!(
            "src/{}:{} {} has {} lines, more than {FUNCTION}",
            source.file, function.line, function.name, function.lines
        ));
    }
    violations
}

#[test]
fn a_long_function_is_seen() {
    let body = "let x = 1;\n".repeat(FUNCTION + 1);
    assert_eq!(check(&Source::parse("api/x.rs", &format!("fn f() {{\n{body}}}"))).len(), 1);
}
