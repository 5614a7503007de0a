package main

import "github.com/coreos/go-semver/semver"

// versions: text, major, minor and patch, or text and "error", as the library says with which etcd reads versions.
func versions() []string {
	texts := []string{
		"", "3", "3.6", "3.6.16", "3.5.0", "3.4.45", "3.10.0", "0.0.0", "3.7.0-rc.0", "3.7.0-alpha.1", "3.6.0-pre",
		"3.5.0+git", "3.6.16-rc.1+build.5", "3.6.16+build-5", "3.6.16-0", "3.6.16-01", "3.6.16-", "3.6.16+", "3.6.16-rc..1",
		"3.6.16-rc_1", "3.6.16+b_1", "3.6.16-.", "3.6.16.1", "3..16", ".6.16", "3.6.", "a.b.c", "3.6.x", "-3.6.16", "3.-6.16",
		"+3.6.16", "3.6.16 ", " 3.6.16", "3.6.1 6", "03.6.16", "3.06.16", "3.6.016", "9223372036854775807.0.0",
		"9223372036854775808.0.0", "18446744073709551616.0.0", "3.6.16\n", "3,6,16", "latest", "not_decided", "3.6.16-é", "３.6.16",
		"10.20.30", "999.999.999", "3.6.16--", "3.6.16-rc.0-1",
	}
	var lines []string
	for _, text := range texts {
		if read, err := semver.NewVersion(text); err != nil {
			lines = append(lines, line(text, "error"))
		} else {
			lines = append(lines, line(text, read.Major, read.Minor, read.Patch))
		}
	}
	return lines
}
