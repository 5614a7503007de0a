use super::*;

/// What robfig's module makes of many texts: made by tests/cluster/tools/golden-cron.
const GOLDEN: &str = include_str!("../../../tests/golden/cron.tsv");

fn times(text: &str, from: Timestamp) -> Vec<String> {
    let Ok(schedule) = Schedule::parse(text) else { return vec!["error".to_owned()] };
    let mut times = Vec::new();
    let mut at = from;
    for _ in 0..5 {
        let Some(next) = schedule.next(at) else {
            times.push("never".to_owned());
            break;
        };
        times.push(next.to_string());
        at = next;
    }
    times
}

#[test]
fn every_text_is_read_as_robfig_reads_it() {
    let mut wrong = Vec::new();
    for line in GOLDEN.lines() {
        let [text, from, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let text: String = serde_json::from_str(text).unwrap();
        let found = times(&text, from.parse().unwrap()).join(" ");
        if found != expected {
            wrong.push(format!("{text:?} from {from}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(GOLDEN.lines().count() > 2000);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_of_no_use_is_refused_with_a_reason() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for (text, why) in [
        ("0 0 31 2 *", "this schedule does not come up within five years: there is no such date"),
        ("@every 59s", "@every \"59s\" is shorter than a minute"),
        ("0 3 * *", "expected five fields (minute, hour, day of month, month, day of week), found 4"),
        ("0 24 * * *", "hour \"24\": expected 0 to 23"),
        (
            "TZ=Europe/Atlantis 0 3 * * *",
            "time zone \"Europe/Atlantis\" is not known: expected a name such as Europe/Berlin, or UTC",
        ),
        ("TZ=UTC", "nothing follows the time zone"),
        (
            "@nightly",
            "\"@nightly\" is not known: expected @yearly, @monthly, @weekly, @daily, @hourly or @every DURATION",
        ),
        ("", "the schedule is empty"),
    ] {
        assert_eq!(Schedule::parse_useful(text, now).unwrap_err().to_string(), why, "{text}");
    }
    for text in ["0 0 29 2 *", "@every 1m", "TZ=Asia/Tokyo @daily"] {
        assert!(Schedule::parse_useful(text, now).is_ok(), "{text}");
    }
}
