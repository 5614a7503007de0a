package main

import (
	"math/big"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities: text, "error"; or text, digits and exponent of the exact value, the value rounded up to a whole number
// ("beyond" where an int64 cannot hold it, "unlike" below zero, where Value() is not to be relied on: it says 1 for
// -1m and 0 for -1Ei), and its rank among all values of the table.
func quantities() []string {
	var texts []string
	numbers := []string{
		"0", "1", "7", "10", "100", "1000", "1023", "1024", "1.5", "0.5", ".5", "5.", "0.1", "0.001", "0.0000000001",
		"1.0000000001", "123456789", "999999999999999999", "9223372036854775807", "9223372036854775808",
		"12345678901234567890123", "0.000000000000000000000000000001", "00012", "1.10", "3.3333333333",
	}
	suffixes := []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e0", "e3", "E3", "e-3", "e+3", "E-9", "e12"}
	for _, number := range numbers {
		for _, suffix := range suffixes {
			texts = append(texts, number+suffix)
		}
	}
	for _, number := range []string{"1", "1.5", "0", "0.0000000001", "9223372036854775809"} {
		for _, suffix := range []string{"", "m", "Gi", "e3", "Ei"} {
			texts = append(texts, "-"+number+suffix, "+"+number+suffix)
		}
	}
	texts = append(texts,
		"", " ", ".", "+", "-", "..", "1..5", "1.5.5", "--1", "+-1", "1 Gi", " 1", "1 ", "1K", "1KI", "1ki", "1mi", "1gi",
		"1Gib", "1GB", "1B", "1i", "1im", "1e", "1E+", "1e-", "1ee3", "1e3.5", "1e3Ki", "1Kie3", "1e 3", "0x10", "1_000",
		"1,5", "inf", "nan", "NaN", "Gi", "-Gi", "m", "e3", "1e19", "1e40", "1e-40", "1é", "١", "1Gi\n", "000", "000Gi",
		"0.0", "-0", "+0", "-0.0", "1e99999999999999999999", "4Gi", "4096Mi", "4294967296", "4.294967296G", "512Mi", "0.5Gi",
		"536870912", "1000m", "1000000u",
	)

	type row struct {
		text  string
		value *resource.Quantity
	}
	var rows []row
	for _, text := range texts {
		read, err := resource.ParseQuantity(text)
		if err != nil {
			rows = append(rows, row{text, nil})
			continue
		}
		rows = append(rows, row{text, &read})
	}
	ranks := map[string]int{}
	var sorted []row
	for _, row := range rows {
		if row.value != nil {
			sorted = append(sorted, row)
		}
	}
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].value.Cmp(*sorted[j].value) < 0 })
	rank := 0
	for i, row := range sorted {
		if i > 0 && sorted[i-1].value.Cmp(*row.value) != 0 {
			rank++
		}
		ranks[row.text] = rank
	}
	var lines []string
	for _, row := range rows {
		if row.value == nil {
			lines = append(lines, line(row.text, "error"))
			continue
		}
		digits, exponent := exact(*row.value)
		lines = append(lines, line(row.text, digits, exponent, whole(*row.value), ranks[row.text]))
	}
	return lines
}

// exact is the value as digits without zeros at the end, times ten to the exponent.
func exact(quantity resource.Quantity) (string, int) {
	dec := quantity.AsDec()
	digits, exponent := dec.UnscaledBig().String(), -int(dec.Scale())
	for strings.HasSuffix(digits, "0") && len(digits) > 1 {
		digits, exponent = strings.TrimSuffix(digits, "0"), exponent+1
	}
	if digits == "0" || digits == "-0" {
		return "0", 0
	}
	return digits, exponent
}

// whole is what Value() says, where the value fits into what it returns.
func whole(quantity resource.Quantity) any {
	digits, exponent := exact(quantity)
	value, _ := new(big.Rat).SetString(digits + "e" + big.NewInt(int64(exponent)).String())
	if value.Sign() < 0 {
		return "unlike"
	}
	limit := new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 63))
	if value.Cmp(limit) >= 0 {
		return "beyond"
	}
	return quantity.Value()
}
