package rule

import "cmp"

// Strategy is how the keys of a staging table are searched. It changes neither the
// rows of the result nor their order.
type Strategy string

// The strategies.
const (
	// StrategyAuto, the default, is merge if the keys of the build side are sorted, and
	// index otherwise. It changes from merge to index where training keys are not sorted.
	StrategyAuto Strategy = ""
	// StrategyIndex is a hash index over the staging rows.
	StrategyIndex Strategy = "index"
	// StrategyMerge searches sorted keys, each search starting where the last one ended.
	// Keys that are not sorted are indexed.
	StrategyMerge Strategy = "merge"
	// StrategyZip is merge that tries the next staging row first, for tables that have
	// the same keys in the same order.
	StrategyZip Strategy = "zip"
	// StrategyBroadcast is auto over the whole table, loaded once for all splits and
	// streams.
	StrategyBroadcast Strategy = "broadcast"
	// StrategyCustom is a strategy that the composition root registered under a name.
	StrategyCustom Strategy = "custom"
)

// Strategies returns all strategies.
func Strategies() []Strategy {
	return []Strategy{StrategyAuto, StrategyIndex, StrategyMerge, StrategyZip, StrategyBroadcast, StrategyCustom}
}

// String returns the strategy as datasets spell it, without the name of a custom one.
func (s Strategy) String() string { return cmp.Or(string(s), "auto") }

// Explain describes the strategy for explain texts.
func (s Strategy) Explain() string {
	switch s {
	case StrategyAuto:
		return "auto: merge where the keys turn out to be sorted, else index"
	case StrategyMerge, StrategyZip:
		return s.String() + "; index where the keys turn out not to be sorted"
	case StrategyBroadcast:
		return "broadcast: the whole table, loaded once for all splits"
	case StrategyIndex, StrategyCustom:
		return s.String()
	}
	return "unknown"
}

// Whole reports whether each split needs the whole table, whatever the layout of the
// keys. A custom strategy may match keys that are not equal.
func (s Strategy) Whole() bool {
	switch s {
	case StrategyBroadcast, StrategyCustom:
		return true
	case StrategyAuto, StrategyIndex, StrategyMerge, StrategyZip:
		return false
	}
	return true
}

// Custom reports whether a registered strategy searches the keys.
func (s Strategy) Custom() bool {
	switch s {
	case StrategyCustom:
		return true
	case StrategyAuto, StrategyIndex, StrategyMerge, StrategyZip, StrategyBroadcast:
		return false
	}
	return false
}

// Merges reports whether sorted keys are searched without an index.
func (s Strategy) Merges() bool {
	switch s {
	case StrategyAuto, StrategyBroadcast, StrategyMerge, StrategyZip:
		return true
	case StrategyIndex, StrategyCustom:
		return false
	}
	return false
}

// Zips reports whether a search tries the next staging row first.
func (s Strategy) Zips() bool {
	switch s {
	case StrategyZip:
		return true
	case StrategyAuto, StrategyIndex, StrategyMerge, StrategyBroadcast, StrategyCustom:
		return false
	}
	return false
}

// FallsBack reports whether sorted keys are indexed if training keys are not sorted.
func (s Strategy) FallsBack() bool {
	switch s {
	case StrategyAuto, StrategyBroadcast:
		return true
	case StrategyIndex, StrategyMerge, StrategyZip, StrategyCustom:
		return false
	}
	return false
}

// MarshalText returns the bytes of String.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), Check(s, Strategies()) }
