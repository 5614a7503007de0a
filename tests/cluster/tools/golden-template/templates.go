package main

var templates = []string{
	// Texts around actions, trimming, comments.
	"", "plain", "{{/* nothing */}}x", "a {{- \" b \" -}} c", "{{`raw`}}", "{{\"\\u00e9\\n\"}}", "}} {", "{{", "{{}}", "{{.Application",
	"{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/",
	"{{.Parameters.bucket}}", "{{$.Parameters.bucket}}", "{{ .Parameters.missing }}", "{{ .Application.spec.missing }}",
	"{{ .Parameters.region }}", "{{ .Application.spec.replicas }}", "{{ .Application.spec.ratio }}", "{{ .Application.spec.enabled }}",
	"{{ .Application.spec.zones }}", "{{ .Application.metadata.labels }}", "{{ .Application.spec.size.x }}",
	// Control flow.
	"{{if .Parameters.region}}r{{else}}none{{end}}", "{{if .Parameters.missing}}m{{else}}none{{end}}",
	"{{if .Application.spec.off}}a{{else if .Application.spec.enabled}}b{{else}}c{{end}}",
	"{{with .Application.metadata}}{{.name}}{{end}}", "{{with .Parameters.missing}}x{{else}}y{{end}}", "{{with .Application.spec.none}}x{{else}}{{.Parameters.bucket}}{{end}}",
	"{{range .Application.spec.zones}}[{{.}}]{{end}}", "{{range $i, $z := .Application.spec.zones}}{{$i}}={{$z}};{{end}}", "{{range .Application.spec.none}}x{{else}}empty{{end}}",
	"{{range $k, $v := .Application.metadata.labels}}{{$k}}:{{$v}} {{end}}", "{{range 3}}{{.}}{{end}}", "{{range .Parameters.bucket}}x{{end}}",
	"{{range .Application.spec.zones}}{{if eq . \"a\"}}{{continue}}{{end}}{{.}}{{end}}", "{{range .Application.spec.zones}}{{if eq . \"a\"}}{{break}}{{end}}{{.}}{{end}}",
	"{{break}}", "{{continue}}", "{{if true}}{{break}}{{end}}", "{{end}}", "{{else}}", "{{if}}x{{end}}", "{{if true}}x",
	"{{$x := .Parameters.bucket}}{{$x}}", "{{$x := 1}}{{$x = 2}}{{$x}}", "{{$x = 1}}", "{{$y}}", "{{if true}}{{$x := 1}}{{end}}{{$x}}", "{{with $x := .Parameters.bucket}}{{$x}}{{end}}",
	"{{define \"n\"}}<{{.}}>{{end}}{{template \"n\" .Parameters.bucket}}", "{{block \"b\" .Parameters.count}}{{.}}{{end}}", "{{template \"none\"}}", "{{define \"a\"}}1{{end}}{{define \"a\"}}2{{end}}",
	"{{nosuch .Parameters.bucket}}", "{{ \"a\" \"b\" }}", "{{nil}}", "{{1 | 2}}", "{{ ( .Application.metadata ).name }}", "{{ (index .Application.spec.zones 0) }}",
	// Builtins.
	"{{len .Parameters.bucket}}", "{{len .Application.spec.zones}}", "{{index .Parameters \"bucket\"}}", "{{index .Application.metadata.labels \"team\"}}", "{{index .Application.spec.zones 1}}", "{{index .Application.spec.zones 9}}",
	"{{eq .Parameters.bucket \"etcd-backups\"}}", "{{ne 1 2}} {{lt 1 2}} {{le 2 2}} {{gt 1 2}} {{ge 1 2}}", "{{eq 1 2 3 1}}", "{{and true .Parameters.bucket}}", "{{or .Parameters.region \"us-east-1\"}}", "{{not true}}",
	"{{print 1 2 \"a\" 3 4}}", "{{println \"a\" 1}}", "{{printf \"%s-%d-%v-%q\" \"a\" 3 true \"q\"}}", "{{printf \"%05d|%-5s|%5s|%x|%t\" 42 \"a\" \"b\" 255 true}}", "{{printf \"%d\" \"x\"}}", "{{printf \"%s\"}}",
	"{{html .Application.metadata.annotations.note}}", "{{urlquery \"a b&c\"}}", "{{js \"it's\"}}", "{{.Parameters.count | printf \"%s!\"}}",
	// slim-sprig: texts.
	"{{trunc 4 .Parameters.bucket}}|{{trunc -4 .Parameters.bucket}}|{{trunc 99 .Parameters.bucket}}|{{trunc -99 .Parameters.bucket}}", "{{trim \"  a \"}}|{{upper \"aß\"}}|{{lower \"AÉ\"}}|{{title \"hello wide_world x-y\"}}",
	"{{substr 1 3 \"abcdef\"}}|{{substr -1 3 \"abcdef\"}}|{{substr 2 -1 \"abcdef\"}}|{{substr 2 99 \"abcdef\"}}", "{{repeat 3 \"ab\"}}", "{{repeat -1 \"ab\"}}",
	"{{trimAll \"/\" .Parameters.prefix}}", "{{trimall \"/-\" \"/-a-/\"}}", "{{trimSuffix \"/\" .Parameters.prefix}}", "{{trimPrefix \"/\" .Parameters.prefix}}",
	"{{contains \"cup\" \"hiccup\"}} {{hasPrefix \"a\" \"abc\"}} {{hasSuffix \"z\" \"abc\"}}", "{{quote \"a\\\"b\" 3 true}}", "{{squote \"a\" 3}}", "{{cat \"a\" 1 \"b\"}}", "{{indent 2 .Parameters.lines}}", "{{nindent 2 .Parameters.lines}}",
	"{{replace \"-\" \"_\" .Parameters.bucket}}", "{{replace \"\" \"_\" \"ab\"}}", "{{plural \"one\" \"many\" 1}} {{plural \"one\" \"many\" 2}}", "{{sha256sum \"abc\"}}", "{{adler32sum \"abc\"}}", "{{toString 12}}{{toString true}}",
	"{{(split \",\" .Parameters.words)._1}}", "{{(splitn \",\" 2 .Parameters.words)._1}}", "{{splitList \",\" .Parameters.words}}", "{{splitList \"\" \"abc\"}}", "{{join \"-\" (splitList \",\" .Parameters.words)}}", "{{join \"-\" (list 1 2 \"x\")}}", "{{join \"-\" \"solo\"}}",
	"{{toStrings (list 1 true \"x\")}}", "{{sortAlpha .Application.spec.zones}}", "{{sortAlpha \"solo\"}}",
	"{{b64enc \"hello\"}} {{b64dec \"aGVsbG8=\"}} {{b32enc \"hello\"}} {{b32dec \"NBSWY3DP\"}}", "{{b64enc \"\"}}|{{b64enc \"a\"}}|{{b64enc \"ab\"}}|{{b32enc \"a\"}}|{{b32enc \"abcd\"}}",
	"{{base \"a/b.c\"}} {{dir \"a/b.c\"}} {{clean \"a//b/../c/.\"}} {{ext \"a/b.tar.gz\"}} {{isAbs \"/a\"}}", "{{base \"\"}} {{base \"/\"}} {{base \"a/\"}} {{dir \"\"}} {{dir \"/\"}} {{dir \"a\"}} {{clean \"\"}} {{clean \"/..\"}} {{clean \"../a\"}} {{ext \"a.b/c\"}}",
	"{{clean .Parameters.prefix}}", "{{osBase \"a/b\"}} {{osDir \"a/b\"}} {{osClean \"a/./b\"}} {{osExt \"a.b\"}} {{osIsAbs \"a\"}}", "{{fail \"no good\"}}",
	"{{regexMatch \"^[a-z]+$\" \"abc\"}} {{regexMatch \"(\" \"abc\"}}", "{{regexFind \"[0-9]+\" \"ab12cd3\"}}", "{{regexFindAll \"[0-9]\" \"a1b2c3\" -1}} {{regexFindAll \"[0-9]\" \"a1b2c3\" 2}}", "{{regexReplaceAll \"a(x*)b\" \"-ab-axxb-\" \"${1}W\"}}", "{{regexReplaceAllLiteral \"a(x*)b\" \"-ab-axxb-\" \"${1}\"}}",
	"{{regexSplit \"z+\" \"pizzazz\" -1}} {{regexSplit \"z+\" \"pizzazz\" 2}} {{regexSplit \"\" \"abc\" -1}} {{regexSplit \"x\" \"\" -1}}", "{{regexQuoteMeta \"a.b*c-d\"}}", "{{mustRegexMatch \"(\" \"a\"}}",
	// slim-sprig: numbers.
	"{{atoi \"12\"}} {{atoi \"x\"}} {{int \"7\"}} {{int64 3.9}} {{float64 \"2.5\"}} {{int true}} {{int nil}}", "{{toDecimal \"777\"}} {{toDecimal 9}}", "{{add 1 2 3}} {{add1 4}} {{sub 5 7}} {{mul 2 3 4}} {{div 7 2}} {{mod 7 2}}", "{{div 1 0}}", "{{mod 1 0}}",
	"{{max 1 5 3}} {{min 4 2 3}} {{biggest 1 9}} {{maxf 1.5 2}} {{minf 1.5 2}}", "{{ceil 1.2}} {{floor 1.8}} {{round 1.255 2}} {{round 2.5 0}} {{round 1.4 0}}", "{{until 4}} {{until -3}} {{untilStep 2 9 3}} {{untilStep 9 2 -3}} {{untilStep 1 5 0}}", "{{seq 5}}|{{seq -2}}|{{seq 2 5}}|{{seq 5 2}}|{{seq 0 2 10}}|{{seq 0 -2 -5}}|{{seq 0 2 -5}}|{{seq}}", "{{add .Parameters.count 1}}",
	// slim-sprig: lists, defaults, maps.
	"{{default \"us-east-1\" .Parameters.region}} {{default \"d\" .Parameters.missing}} {{default \"d\" .Parameters.bucket}} {{default 5 0}}", "{{.Parameters.missing | default \"d\"}}", "{{default \"d\"}}", "{{empty \"\"}} {{empty 0}} {{empty .Application.spec.none}} {{empty .Application.spec.zones}}", "{{coalesce \"\" 0 \"x\" \"y\"}}", "{{all 1 \"a\"}} {{all 1 \"\"}} {{any 0 \"\"}} {{any 0 1}}",
	"{{ternary \"y\" \"n\" true}} {{ternary \"y\" \"n\" .Application.spec.off}}", "{{kindOf \"a\"}} {{kindOf 1}} {{kindOf true}} {{kindOf (list 1)}} {{kindOf .Application}} {{kindIs \"string\" .Parameters.bucket}}", "{{deepEqual (list 1 2) (list 1 2)}} {{deepEqual \"a\" \"b\"}}",
	"{{list 1 \"a\" true}}", "{{append (list 1) 2}} {{prepend (list 1) 2}} {{push (list 1) 2}}", "{{first .Application.spec.zones}} {{last .Application.spec.zones}} {{rest .Application.spec.zones}} {{initial .Application.spec.zones}}", "{{rest .Application.spec.none}}", "{{reverse .Application.spec.zones}} {{uniq .Application.spec.zones}} {{compact (list 1 0 \"\" \"a\")}} {{without .Application.spec.zones \"b\"}}",
	"{{has \"a\" .Application.spec.zones}} {{has \"z\" .Application.spec.zones}}", "{{slice (list 1 2 3 4) 1 3}} {{slice (list 1 2 3) 1}} {{slice (list 1 2 3)}}", "{{slice (list 1 2) 3}}", "{{concat (list 1) (list 2 3)}}", "{{chunk 2 (list 1 2 3)}}", "{{first \"abc\"}}",
	"{{(dict \"a\" 1 \"b\").b}}|{{(dict \"a\" 1).a}}", "{{get .Application.metadata.labels \"team\"}}|{{get .Application.metadata.labels \"none\"}}", "{{hasKey .Application.metadata.labels \"team\"}} {{hasKey .Application.metadata.labels \"x\"}}", "{{pluck \"a\" (dict \"a\" 1) (dict \"b\" 2) (dict \"a\" 3)}}", "{{keys (dict \"a\" 1)}} {{values (dict \"a\" 1)}}", "{{keys .Application.metadata.labels | sortAlpha}}", "{{pick .Application.metadata.labels \"team\" \"x\"}} {{omit .Application.metadata.labels \"team\"}}",
	"{{dig \"metadata\" \"labels\" \"team\" \"none\" .Application}} {{dig \"metadata\" \"x\" \"team\" \"none\" .Application}}", "{{dig \"metadata\" \"name\" \"x\" \"none\" .Application}}",
	"{{(fromJson \"{\\\"a\\\": [1, 2]}\").a}}", "{{fromJson \"{\" | empty}}", "{{mustFromJson \"{\"}}", "{{toJson .Application.metadata.annotations}}", "{{toRawJson .Application.metadata.annotations}}", "{{toPrettyJson (dict \"a\" (list 1 \"x\") \"b\" (dict))}}", "{{toJson (dict \"z\" 1 \"a\" nil)}}", "{{.Application.spec | toJson}}",
	// slim-sprig: time.
	"{{date \"2006-01-02\" 0}} {{htmlDate 86400}} {{dateInZone \"2006-01-02 15:04:05 MST\" 1700000000 \"UTC\"}} {{date_in_zone \"Mon, 2 Jan 06 3:04PM\" 1700000000 \"UTC\"}} {{htmlDateInZone 0 \"UTC\"}}", "{{dateInZone \"Monday January _2 002 __2 03 pm 1 4 5 -0700 -07:00 Z07:00 -07\" 1700000000 \"UTC\"}}", "{{dateInZone \"20060102T150405Z\" 1700000000 \"UTC\"}}", "{{dateInZone \"2006/01\" 1700000000 \"No/Such\"}}", "{{dateInZone \"Janet Monkey 2006\" 1700000000 \"UTC\"}}",
	"{{duration \"95\"}} {{duration (int64 7200)}} {{duration \"x\"}} {{duration \"-61\"}}", "{{durationRound \"2h30m\"}} {{durationRound \"400h\"}} {{durationRound \"1.5s\"}} {{durationRound \"90000h\"}} {{durationRound \"x\"}}",
	// Wrong numbers and types of arguments.
	"{{trunc 4}}", "{{trunc \"a\" \"b\"}}", "{{upper}}", "{{upper 3}}", "{{upper .Parameters.missing}}", "{{upper nil}}", "{{replace \"a\" \"b\"}}", "{{contains 1 2}}", "{{get \"x\" \"y\"}}", "{{ternary 1 2}}", "{{ternary 1 2 \"x\"}}", "{{join \"-\"}}",
	// What strategies look like.
	"{{ .Application.metadata.namespace }}/{{ .Application.metadata.name }}/{{ .Parameters.prefix | trimAll \"/\" }}", "{{ .Parameters.region | default \"us-east-1\" }}", "{{ printf \"%s/%s\" .Application.metadata.namespace (.Application.metadata.uid | trunc 8) }}", "{{- if .Parameters.prefix }}{{ clean .Parameters.prefix }}/{{ end -}}x",
}
