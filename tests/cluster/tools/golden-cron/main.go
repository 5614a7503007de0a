// golden-cron reads schedules with robfig/cron's standard parser and writes a table of what it makes of them: the text
// as JSON, the moment to start from, and the next five times, "never", or "error". Our own reader is held to it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: golden-cron FILE")
		os.Exit(2)
	}
	file, err := os.Create(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := bufio.NewWriter(file)
	for _, text := range append(written(), generated()...) {
		for _, from := range moments(text) {
			quoted, _ := json.Marshal(text)
			fmt.Fprintf(out, "%s\t%s\t%s\n", quoted, from.Format(time.RFC3339Nano), strings.Join(read(text, from), " "))
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// read gives the next five times. A text that makes the parser panic is an error like any other.
func read(text string, from time.Time) (times []string) {
	defer func() {
		if recover() != nil {
			times = []string{"error"}
		}
	}()
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return []string{"error"}
	}
	at := from
	for range 5 {
		if at = schedule.Next(at); at.IsZero() {
			return append(times, "never")
		}
		times = append(times, at.UTC().Format(time.RFC3339))
	}
	return times
}

// moments are where to start from: near the changes of clocks where there is a time zone.
func moments(text string) []time.Time {
	all := []string{"2026-01-31T23:59:59.5Z", "2028-02-28T12:34:56Z"}
	if strings.Contains(text, "TZ=") {
		all = append(all, "2026-03-28T22:30:00Z", "2026-10-24T23:10:30Z", "2018-11-03T12:00:00Z", "2026-03-07T20:00:00Z", "2026-10-31T20:00:00Z")
	}
	var moments []time.Time
	for _, text := range all {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			panic(err)
		}
		moments = append(moments, at)
	}
	return moments
}

func written() []string {
	fields := []string{
		"* * * * *", "0 3 * * *", "*/5 * * * *", "0 0 1 1 *", "0 0 31 2 *", "0 0 30 2 *", "0 0 29 2 *", "0 0 29 2 1",
		"5/15 * * * *", "59/7 * * * *", "0-59/7 * * * *", "*/0 * * * *", "*/1 * * * *", "*/99 * * * *", "1-5-7 * * * *",
		"5-1 * * * *", "60 * * * *", "-1 * * * *", "+5 * * * *", "-0 * * * *", "007 * * * *", "1_0 * * * *", "0x5 * * * *", "",
		" ", "0 3 * *", "0 3 * * * *", "\t0\t3 * * *\n", "  0 3 * * *  ", "0\u00a03\u2003* * *", "0 3 * * MON", "0 3 * * mon-FRI",
		"0 3 * * sun,Sat", "0 3 * * 7", "0 3 * * 0-6", "0 3 * JAN-mar *", "0 3 * Januar *", "0 3 13 * 5", "0 3 13 * *",
		"0 3 * * 5", "0 3 13 * */2", "0 3 */5 * 5", "0 3 ? * ?", "? ? ? ? ?", "0 3 ?/2 * *", "*-5 * * * *", "*-x-y * * * *", "?-3/4 * * * *",
		", * * * *", "1,,2 * * * *", ",1 * * * *", "1, 2 * * * *", "1/2/3 * * * *", "/5 * * * *", "5/ * * * *", "5- * * * *",
		"-5 * * * *", "*/ * * * *", "*5 * * * *", "**  * * * *", "a * * * *", "1.5 * * * *", "0 24 * * *", "0 23 * * *", "0 0 0 * *",
		"0 0 32 * *", "0 0 * 0 *", "0 0 * 13 *", "0 0 L * *", "0 0 * * 5L", "0 0 * * 5#3", "0 0 15W * *", "99999999999999999999 * * * *",
		"*/18446744073709551615 * * * *", "*/9223372036854775807 * * * *", "0 0 31 4,6,9,11 *", "0 0 31 */2 *",
		"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@reboot", "@Daily", "@daily ", " @daily", "@",
		"@every 1h", "@every 90s", "@every 1.5h", "@every 1500ms", "@every 0s", "@every -5m", "@every 1ns", "@every", "@every ", "@every  1h",
		"@every 1d", "@every 1h30m10s", "@every +1h", "@every1h", "@every 2562047h47m16.854775807s", "@every 9999999h",
	}
	zones := []string{
		"TZ=UTC 0 3 * * *", "CRON_TZ=UTC 0 3 * * *", "TZ= 0 3 * * *", "TZ=Local 0 3 * * *", "TZ=Nowhere/At 0 3 * * *", "TZ=UTC",
		"TZ=UTC ", "TZ=utc 0 3 * * *", "TZ=europe/berlin 0 3 * * *", "TZ=Europe/Berlin  0 3 * * *", "TZ=Europe/Berlin\t0 3 * * *",
		"tz=UTC 0 3 * * *", " TZ=UTC 0 3 * * *", "TZ=UTC TZ=UTC 0 3 * * *", "CRON_TZ=Asia/Tokyo @daily", "TZ=Asia/Tokyo @every 1h", "TZ=../UTC 0 3 * * *",
		"TZ=/UTC 0 3 * * *", "TZ=EST5EDT 0 3 * * *", "TZ=Etc/GMT+5 0 3 * * *", "TZ=Zulu 0 3 * * *", "TZ=GMT 0 3 * * *",
	}
	for _, zone := range []string{"Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "Africa/Cairo", "Europe/London"} {
		for _, times := range []string{"0 3 * * *", "30 2 * * *", "0 0 * * *", "30 0 * * *", "*/20 * * * *", "15 1-3 * * 0", "0 12 1 * *", "0 0 1 11 *", "0 1 29 3 *", "30 1 25 10 *"} {
			zones = append(zones, "TZ="+zone+" "+times)
		}
	}
	return append(fields, zones...)
}

// generated are texts of the right letters, and more often than not of the right form.
func generated() []string {
	random := rand.New(rand.NewSource(20260101))
	bounds := [][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	part := func(low, high int) string {
		value := func() int { return low - 1 + random.Intn(high-low+3) }
		inside := func() int { return low + random.Intn(high-low+1) }
		switch random.Intn(9) {
		case 0, 1, 2:
			return "*"
		case 3, 4:
			return fmt.Sprint(inside())
		case 5:
			return fmt.Sprintf("%d-%d", inside(), inside())
		case 6:
			return fmt.Sprintf("*/%d", 1+random.Intn(high))
		case 7:
			return fmt.Sprintf("%d-%d/%d", inside(), high, 1+random.Intn(9))
		default:
			return fmt.Sprint(value())
		}
	}
	var texts []string
	for range 600 {
		var fields []string
		for _, bound := range bounds {
			list := part(bound[0], bound[1])
			for random.Intn(4) == 0 {
				list += "," + part(bound[0], bound[1])
			}
			fields = append(fields, list)
		}
		texts = append(texts, strings.Join(fields, " "))
	}
	letters := []rune("0123456789*/-,? @TZ=UTCmonjan\t")
	for range 300 {
		var text []rune
		for range 1 + random.Intn(14) {
			text = append(text, letters[random.Intn(len(letters))])
		}
		texts = append(texts, string(text))
	}
	return texts
}
