package config

import (
	"fmt"
	"strings"
)

// Markdown is the text of docs/settings.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Settings

Generated from the table in package config by ` + "`make generate`" + `; edit that table, not this page. ` + "`queen settings`" + ` prints the same.

Every setting is an environment variable, read once, at boot. Spaces around a value are dropped, a blank value counts as unset, and
values that are one of a list ignore case. A setting that is missing or wrong ends the boot with one line that names it, and exit
code 78. A ` + "`QUEEN_*`" + ` variable that is none of these gets one warning with the nearest name.
`)
	scope := Scope("")
	for _, s := range Settings() {
		if s.Scope != scope {
			scope = s.Scope
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| variable | default | values | what it is |\n|---|---|---|---|\n", title(scope), about(scope))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Env, s.defaultText("`"), s.valuesText("`"), s.purposeText())
	}
	return b.String()
}

// Table is the text of `queen settings`: one setting a paragraph, fit for a terminal.
func Table() string {
	var b strings.Builder
	scope := Scope("")
	for _, s := range Settings() {
		if s.Scope != scope {
			scope = s.Scope
			fmt.Fprintf(&b, "%s\n%s\n\n", strings.ToUpper(title(scope)), about(scope))
		}
		fmt.Fprintf(&b, "  %s\n      %s\n      default %s; values %s\n", s.Env, s.Purpose, s.defaultText(""), s.valuesText(""))
		for _, o := range s.Options {
			fmt.Fprintf(&b, "        %s %s\n", o.Value, o.meansText())
		}
		b.WriteString("\n")
	}
	return b.String()
}

func title(s Scope) string {
	switch s {
	case Broker:
		return "The broker"
	case Process:
		return "The sink in this process"
	case PerSink:
		return "The sink: where it writes, and how"
	}
	return "The sink: this node"
}

func about(s Scope) string {
	switch s {
	case Broker:
		return "Read always."
	case Process:
		return "Read when QUEEN_S3_EMBEDDED is true, like everything below."
	case PerSink:
		return "What one mirror is told. Setting QUEEN_S3_QUEUES is what turns it on."
	}
	return "Shared by every sink of the node."
}

func (s *Setting) defaultText(mark string) string {
	switch {
	case s.Required:
		return "required"
	case s.Shown != "":
		return s.Shown
	case s.Default == "":
		return "unset"
	}
	return mark + s.Default + mark
}

func (s *Setting) valuesText(mark string) string {
	switch s.Kind {
	case Number:
		return fmt.Sprintf("%d to %d", s.Min, s.Max)
	case Boolean:
		return mark + "true" + mark + " or " + mark + "false" + mark
	case Choice:
		var names []string
		for _, o := range s.Options {
			names = append(names, mark+o.Value+mark)
		}
		return strings.Join(names, ", ")
	}
	return "text"
}

// purposeText is the purpose as a sentence, followed by what each value means.
func (s *Setting) purposeText() string {
	text := strings.ToUpper(s.Purpose[:1]) + s.Purpose[1:]
	var means []string
	for _, o := range s.Options {
		means = append(means, "`"+o.Value+"` "+o.meansText())
	}
	if len(means) > 0 {
		text += ": " + strings.Join(means, ", ")
	}
	return strings.ReplaceAll(text, "|", "\\|")
}

func (o Option) meansText() string {
	text := o.Means
	if len(o.Aliases) > 0 {
		text += " (also " + strings.Join(o.Aliases, ", ") + ")"
	}
	if o.Absent != "" {
		text += " (not available: " + o.Absent + ")"
	}
	return text
}
