use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{
    Allowance, Data, RenderError, Template, TemplateError, denied, is_supported, parse_strategy, render_strategy,
    supported,
};
use crate::api::strategy::{SecretName, StrategyS3};

fn data() -> Data {
    let application = json!({"metadata": {"name": "etcd", "namespace": "tenant-root"}, "spec": {"zones": ["a", "b"]}});
    let parameters = BTreeMap::from([("bucket".to_owned(), "etcd-backups".to_owned())]);
    Data::new(&application, &parameters, Timestamp::UNIX_EPOCH, 7)
}

fn render(text: &str) -> Result<String, TemplateError> {
    Template::parse(text)?.render(&data())
}

#[derive(Deserialize)]
struct Golden {
    application: serde_json::Value,
    parameters: BTreeMap<String, String>,
    results: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    template: String,
    output: Option<String>,
    error: Option<String>,
}

/// Where ours is stricter than Go, on purpose.
const STRICTER: [&str; 2] = [
    // Go leaves it to the first rendering.
    "{{$x = 1}}",
    "{{template \"none\"}}",
];

#[test]
fn every_template_renders_as_in_go() {
    let golden: Golden = serde_json::from_str(include_str!("../../../tests/golden/template.json")).unwrap();
    let data = Data::new(&golden.application, &golden.parameters, Timestamp::UNIX_EPOCH, 0);
    let mut differences = Vec::new();
    for case in &golden.results {
        let parsed = Template::parse(&case.template);
        let ours = parsed.as_ref().map_err(Clone::clone).and_then(|template| template.render(&data));
        let same = match (&case.output, case.error.as_deref(), &ours) {
            (Some(go), None, Err(TemplateError::MissingValue { .. })) => go.contains("<no value>"),
            (Some(go), None, Ok(ours)) => go == ours && !go.contains("<no value>"),
            (None, Some("parse"), _) => parsed.is_err(),
            (None, Some(_), Err(_)) => parsed.is_ok() || STRICTER.contains(&case.template.as_str()),
            _ => false,
        };
        if !same {
            differences
                .push(format!("{}\n  Go:   {:?} {:?}\n  ours: {ours:?}", case.template, case.output, case.error));
        }
    }
    assert!(golden.results.len() > 190, "the table lost cases: {}", golden.results.len());
    assert!(
        differences.is_empty(),
        "{} of {} differ:\n{}",
        differences.len(),
        golden.results.len(),
        differences.join("\n")
    );
}

#[test]
fn a_missing_value_is_false_but_cannot_be_printed() {
    assert_eq!(render("{{if .Parameters.none}}x{{else}}y{{end}}{{with .Parameters.none}}x{{end}}").unwrap(), "y");
    assert_eq!(render("{{.Parameters.none | default \"d\"}}").unwrap(), "d");
    for text in [
        "a\n  {{ .Parameters.none }}",
        "a\n  {{ .Application.spec.none.deeper }}",
        "a\n  {{ print \"x\" .Parameters.none }}",
        "a\n  {{ .Parameters.none | printf \"%s\" }}",
        "a\n  {{ index .Parameters \"none\" }}",
    ] {
        let error = render(text).unwrap_err();
        let TemplateError::MissingValue { at, .. } = &error else { panic!("{text}: {error:?}") };
        assert_eq!(at.line, 2, "{text}: {error}");
    }
    assert_eq!(
        render("x/{{ .Parameters.none }}").unwrap_err().to_string(),
        "line 1, column 6: .Parameters.none has no value"
    );
    assert!(matches!(render("{{quote .Parameters.none}}"), Err(TemplateError::Failed(_))));
}

#[test]
fn only_two_variables_are_known() {
    for (text, name, line, column) in [
        ("{{ .Params.bucket }}", ".Params", 1, 4),
        ("a\n{{ if $.Release }}x{{ end }}", "$.Release", 2, 7),
        ("{{ with .Application }}{{ .metadata.name }}{{ else }}{{ .Foo }}{{ end }}", ".Foo", 1, 57),
        ("{{ $x }}", "$x", 1, 4),
        ("{{ printf \"%s\" (.Values.x) }}", ".Values", 1, 17),
    ] {
        match Template::parse(text) {
            Err(TemplateError::UnknownVariable { at, name: found }) => {
                assert_eq!((found.as_str(), at.line, at.column), (name, line, column), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // Inside range, with and define, dot is something else.
    assert!(Template::parse("{{range .Application.spec.zones}}{{.any}}{{end}}{{define \"x\"}}{{.y}}{{end}}").is_ok());
}

#[test]
fn faults_carry_their_place_and_name() {
    let message = |text: &str| Template::parse(text).unwrap_err().to_string();
    assert_eq!(message("a\n {{ nosuch 1 }}"), "line 2, column 5: there is no function \"nosuch\"");
    assert!(message("{{ env \"HOME\" }}").starts_with("line 1, column 4: function \"env\" may not be used here: "));
    assert!(message("a\n{{ .Application").starts_with("line 2, column "), "{}", message("a\n{{ .Application"));
    assert!(message("{{ getHostByName \"x\" }}").contains("network"));
    assert_eq!(render("{{ fail \"pick a bucket\" }}").unwrap_err().to_string(), "pick a bucket");
    assert_eq!(
        render("{{ trunc \"x\" \"y\" }}").unwrap_err().to_string(),
        "trunc: argument 1 must be an integer, got string"
    );
}

#[test]
fn blocks_open_and_close_in_pairs() {
    let refused = |text: &str| match Template::parse(text) {
        Err(TemplateError::Syntax { at, .. }) => (at.line, at.column),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(refused("a\n{{- end }}"), (2, 5));
    assert_eq!(refused("{{if true}}x"), (1, 3));
    assert_eq!(refused("{{if true}}{{end}}{{else}}"), (1, 21));
    for text in ["{{\"{{if\"}}", "{{`}}{{end`}}", "{{/* {{if */}}x", "{{'\\''}}{{- /* end */ -}}", "{{ending}}"] {
        assert!(!matches!(Template::parse(text), Err(TemplateError::Syntax { .. })), "{text}");
    }
}

#[test]
fn denied_functions_are_not_supported_and_supported_ones_are_not_denied() {
    for name in ["env", "expandenv", "getHostByName", "genPrivateKey", "set", "call"] {
        assert!(denied(name).is_some() && !is_supported(name), "{name}");
    }
    assert!(supported().iter().all(|name| is_supported(name) && denied(name).is_none()));
    assert!(supported().len() > 150, "{}", supported().len());
}

#[test]
fn work_text_and_nesting_are_bounded() {
    let deep = format!("{}x{}", "{{if true}}".repeat(90), "{{end}}".repeat(90));
    let parens = format!("{{{{ {}1{} }}}}", "(".repeat(90), ")".repeat(90));
    for text in [
        "{{ repeat 1000000000 \"x\" }}",
        "{{ until 100000000 }}",
        "{{ seq 100000000 }}",
        "{{ range 100000000 }}{{ end }}",
        "{{ range 9000 }}x{{ end }}",
        "{{ range 100 }}{{ range 100 }}{{ range 100 }}{{ end }}{{ end }}{{ end }}",
        "{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
        "{{ define \"a\" }}{{ template \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}",
        "{{ $x := repeat 60000 \"x\" }}{{ range until 4000 }}{{ $y := replace \"x\" \"y\" $x }}{{ end }}",
        "{{ replace \"\" (repeat 60000 \"x\") (repeat 60000 \"y\") }}",
        "{{ $a := list 1 1 1 1 }}{{ range until 10 }}{{ $a = concat $a $a $a $a }}{{ end }}",
        "{{ indent 1000000000 \"x\" }}",
        "{{ $x := list 1 1 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ toJson $x }}",
        "{{ $x := list 1 1 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ $x }}",
        "{{ $x := list 1 1 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ print $x }}",
        "{{ $x := list 1 1 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ deepEqual $x (list $x) }}",
        "{{ $x := dict \"a\" 1 }}{{ range 40 }}{{ $x = dict \"a\" $x \"b\" $x }}{{ end }}{{ quote $x }}",
        "{{ $x := list 1 }}{{ range 9000 }}{{ $x = list $x }}{{ end }}{{ toJson $x }}",
        "{{ $x := until 4000 }}{{ range 3000 }}{{ if deepEqual $x $x }}{{ end }}{{ end }}",
        "{{ range until 4000 }}{{ if has . (until 4000) }}{{ end }}{{ end }}",
        "{{ len (uniq (until 4000)) }}",
        "{{ range $i := until 4000 }}{{ if regexMatch (printf \"\\\\w{90}%d\" $i) \"x\" }}{{ end }}{{ end }}",
        "{{ $x := repeat 60000 \"x\" }}{{ range until 4000 }}{{ if regexMatch \"y$\" $x }}{{ end }}{{ end }}",
        &deep,
        &parens,
    ] {
        let started = std::time::Instant::now();
        let result = render(text);
        assert!(
            matches!(result, Err(TemplateError::TooMuch | TemplateError::Syntax { .. })),
            "{}: {result:?}",
            &text[..text.len().min(80)]
        );
        assert!(started.elapsed().as_secs() < 5, "{text} took {:?}", started.elapsed());
    }
    assert!(matches!(Template::parse(&"x".repeat(5000)), Err(TemplateError::TooLong { bytes: 5000 })));
}

#[test]
fn a_regular_expression_in_a_loop_is_made_once() {
    let text = "{{ range until 2000 }}{{ if regexMatch \"^\\\\w{2}$\" \"abc\" }}x{{ end }}{{ end }}";
    assert_eq!(render(text).unwrap(), "");
}

#[test]
fn renderings_with_the_same_data_or_allowance_share_their_work() {
    let costly =
        Template::parse("{{ $x := repeat 60000 \"x\" }}{{ range until 5 }}{{ $y := lower $x }}{{ end }}").unwrap();
    let data = data();
    assert_eq!(costly.render(&data), Ok(String::new()));
    assert_eq!(costly.render(&data), Err(TemplateError::TooMuch));
    assert_eq!(costly.render(&super::tests::data()), Ok(String::new()));
    let allowance = Allowance::of(2);
    let rendered = (0..9).filter(|_| costly.render(&super::tests::data().within(allowance.clone())).is_ok()).count();
    assert_eq!(rendered, 2);
}

#[test]
fn the_same_data_renders_the_same_text() {
    let text = "{{ now | date \"2006-01-02T15:04\" }}-{{ randInt 0 1000000 }}-{{ randInt 5 6 }}";
    let first = render(text).unwrap();
    assert_eq!(first, render(text).unwrap());
    assert!(first.starts_with("1970-01-01T00:00-") && first.ends_with("-5"), "{first}");
}

fn strategy() -> StrategyS3 {
    StrategyS3 {
        endpoint: "https://s3.example.org".to_owned(),
        bucket: "{{ .Parameters.bucket }}".to_owned(),
        key: Some("{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/".to_owned()),
        credentials_secret_ref: SecretName { name: "{{ .Application.metadata.name }}-creds".to_owned() },
        ..StrategyS3::default()
    }
}

#[test]
fn a_strategy_renders_to_s3_coordinates() {
    let location = render_strategy(&strategy(), &data()).unwrap();
    assert_eq!(location.bucket, "etcd-backups");
    assert_eq!(location.key.as_deref(), Some("tenant-root/etcd/"));
    assert_eq!(location.credentials_secret_ref.name, "etcd-creds");
    assert_eq!(location.region, None);
}

#[test]
fn a_fault_names_the_field_of_the_strategy() {
    let broken = StrategyS3 { region: Some("{{ .Parameters.region }}".to_owned()), ..strategy() };
    let error = render_strategy(&broken, &data()).unwrap_err();
    assert_eq!(error.field(), "spec.template.destination.s3.region");
    assert_eq!(
        error.to_string(),
        "spec.template.destination.s3.region: line 1, column 4: .Parameters.region has no value"
    );
    let empty = StrategyS3 { bucket: "{{ if false }}x{{ end }}".to_owned(), ..strategy() };
    assert_eq!(render_strategy(&empty, &data()), Err(RenderError::Empty { field: "bucket" }));
    let two = StrategyS3 { bucket: "{{".to_owned(), endpoint: "{{ env \"X\" }}".to_owned(), ..strategy() };
    assert_eq!(parse_strategy(&two).len(), 2);
}
