package state

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"

	"queen/broker/command"
)

// OptionSpec describes one option of a queue: the one place that says its name, type, default and range.
type OptionSpec struct {
	Number   uint64 // in commands and rows
	Name     string // as users write it
	Alias    string // another name that is understood, or ""
	Type     command.OptionType
	Default  command.Option
	Min, Max int64 // of an integer
	Clamp    bool  // an integer out of range is moved to its edge; otherwise it is refused
	Works    bool  // something in this version acts on it; the others are stored, and that is all
	Meaning  string
}

// OptionSpecs returns all options, in the order of their numbers.
func OptionSpecs() []OptionSpec {
	any64 := func(number uint64, name string, def int64, meaning string) OptionSpec {
		return integer(number, name, def, math.MinInt64, math.MaxInt64, meaning)
	}
	maxSize := any64(command.OptMaxSize, "maxSize", 0, "stored only")
	maxSize.Alias = "maxQueueSize"
	dedupWindow := integer(command.OptDedupWindowSeconds, "dedupWindowSeconds", 3600, 0, math.MaxInt64,
		"for how long a transaction id is remembered; 0 = not")
	dedupWindow.Works = true
	minPop := integer(command.OptMinPopWaitTime, "minPopWaitTime", 0, 0, 60_000, "milliseconds; stored only")
	minPop.Clamp = true
	specs := []OptionSpec{
		any64(command.OptLeaseTime, "leaseTime", 300, "seconds for which a delivery is leased"),
		any64(command.OptRetryLimit, "retryLimit", 3, "failures of a batch before it is a dead letter"),
		any64(command.OptRetryDelay, "retryDelay", 1000, "milliseconds; stored only"),
		any64(command.OptPriority, "priority", 0, "stored only"),
		maxSize,
		any64(command.OptTTL, "ttl", 3600, "seconds; stored only"),
		minPop,
		boolean(command.OptDeadLetterQueue, "deadLetterQueue", true, "dead-letter when retries are exhausted"),
		boolean(command.OptDLQAfterMaxRetries, "dlqAfterMaxRetries", true, "the same"),
		any64(command.OptDelayedProcessing, "delayedProcessing", 0, "seconds before a message is delivered"),
		any64(command.OptWindowBuffer, "windowBuffer", 0, "seconds for which a partition is left to gather"),
		boolean(command.OptRetentionEnabled, "retentionEnabled", false, "switches the next two"),
		any64(command.OptRetentionSeconds, "retentionSeconds", 0, "delete what is older; 0 = never"),
		any64(command.OptCompletedRetentionSeconds, "completedRetentionSeconds", 0,
			"delete what is older and was passed by every cursor; 0 = never"),
		any64(command.OptMaxWaitTimeSeconds, "maxWaitTimeSeconds", 0, "delete what is older, always; 0 = never"),
		dedupWindow,
		boolean(command.OptEncryptionEnabled, "encryptionEnabled", false, "payloads are encrypted at rest, if the node has a key"),
		{Number: command.OptRetentionSinkHold, Name: "retentionSinkHold", Type: command.TypeString,
			Default: command.Option{Number: command.OptRetentionSinkHold, Type: command.TypeString},
			Meaning: "name of the sink that retention waits for"},
		integer(command.OptRetentionSinkHoldMaxSeconds, "retentionSinkHoldMaxSeconds", 604_800, 60, 31_536_000,
			"for how long it waits at most"),
	}
	for _, number := range []uint64{command.OptRetentionEnabled, command.OptRetentionSeconds, command.OptMaxWaitTimeSeconds,
		command.OptEncryptionEnabled, command.OptRetentionSinkHold, command.OptRetentionSinkHoldMaxSeconds} {
		specs[number-1].Works = true
	}
	return specs
}

// PushDefaults returns the options that a queue has when a push makes it, where they differ from the defaults.
func PushDefaults() []command.Option {
	return []command.Option{{Number: command.OptLeaseTime, Type: command.TypeInt, Int: 60}}
}

func integer(number uint64, name string, def, lowest, highest int64, meaning string) OptionSpec {
	return OptionSpec{Number: number, Name: name, Type: command.TypeInt, Min: lowest, Max: highest, Meaning: meaning,
		Default: command.Option{Number: number, Type: command.TypeInt, Int: def}}
}

func boolean(number uint64, name string, def bool, meaning string) OptionSpec {
	return OptionSpec{Number: number, Name: name, Type: command.TypeBool, Meaning: meaning,
		Default: command.Option{Number: number, Type: command.TypeBool, Bool: def}}
}

// Check returns why a value is refused for this option, nil when it may be stored. Values that get clamped are not refused.
func (s OptionSpec) Check(o command.Option) error {
	switch {
	case o.Type == command.TypeDefault:
		return nil
	case o.Type != s.Type:
		return fmt.Errorf("%s: the value has another type", s.Name)
	case s.Type == command.TypeInt && !s.Clamp && (o.Int < s.Min || o.Int > s.Max):
		if s.Max == math.MaxInt64 {
			return fmt.Errorf("%s: %d is below %d", s.Name, o.Int, s.Min)
		}
		return fmt.Errorf("%s: %d is not %d to %d", s.Name, o.Int, s.Min, s.Max)
	case s.Type == command.TypeString && !regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`).MatchString(o.Str):
		return fmt.Errorf("%s: %q has to match [A-Za-z0-9._-]{0,64}", s.Name, o.Str)
	}
	return nil
}

// clamp moves a value into the range of an option that has one.
func clamp(o command.Option) command.Option {
	if spec, ok := specOf(o.Number); ok && spec.Clamp {
		o.Int = min(max(o.Int, spec.Min), spec.Max)
	}
	return o
}

func specOf(number uint64) (OptionSpec, bool) {
	specs := OptionSpecs()
	if number == 0 || number > uint64(len(specs)) {
		return OptionSpec{}, false
	}
	return specs[number-1], true
}

// Option returns the value that an option of the queue has: its own or the default. Unknown numbers have none.
func (q *QueueRow) Option(number uint64) command.Option {
	if o, own := q.own(number); own {
		return o
	}
	spec, _ := specOf(number)
	return spec.Default
}

// own returns the value that an option was given.
func (q *QueueRow) own(number uint64) (command.Option, bool) {
	i, own := slices.BinarySearchFunc(q.Options, number, func(o command.Option, number uint64) int { return cmp.Compare(o.Number, number) })
	if !own {
		return command.Option{}, false
	}
	return q.Options[i], true
}

// Seals says that payloads of the queue are to be encrypted at rest. Every push asks it, so no default is looked up: it is false.
func (q *QueueRow) Seals() bool {
	o, own := q.own(command.OptEncryptionEnabled)
	return own && o.Bool
}

// Int returns the value of an integer option.
func (q *QueueRow) Int(number uint64) int64 { return q.Option(number).Int }

// Bool returns the value of a boolean option.
func (q *QueueRow) Bool(number uint64) bool { return q.Option(number).Bool }
