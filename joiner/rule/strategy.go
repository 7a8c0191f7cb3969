package rule

// Strategy says how the keys of a staging table are searched. It changes
// neither the rows of the result nor their order.
type Strategy int

// The strategies.
const (
	// StrategyAuto is merge where the keys turn out sorted, else index; and
	// index after all where training keys turn out to jump. The default.
	StrategyAuto Strategy = iota
	// StrategyIndex is a hash index over the staging rows.
	StrategyIndex
	// StrategyMerge searches in sorted keys, from where the last search ended.
	// Keys that turn out not to be sorted are indexed.
	StrategyMerge
	// StrategyZip is merge that looks at the next staging row first: both tables
	// have the same keys in the same order.
	StrategyZip
	// StrategyBroadcast is auto over the whole table, loaded once for all splits
	// and streams.
	StrategyBroadcast
	// StrategyCustom is one that the composition root registered, by a name.
	StrategyCustom
)

// Strategies returns all of them.
func Strategies() []Strategy {
	return []Strategy{StrategyAuto, StrategyIndex, StrategyMerge, StrategyZip, StrategyBroadcast, StrategyCustom}
}

// String returns the strategy as datasets have it; a custom one's name follows.
func (s Strategy) String() string {
	switch s {
	case StrategyAuto:
		return "auto"
	case StrategyIndex:
		return "index"
	case StrategyMerge:
		return "merge"
	case StrategyZip:
		return "zip"
	case StrategyBroadcast:
		return "broadcast"
	case StrategyCustom:
		return "custom"
	}
	return unknown
}

// Explain says what the strategy does, for people.
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
	return unknown
}

// Whole says that the layout of the keys narrows nothing: the table is searched
// as one. A custom strategy may find keys that are not equal.
func (s Strategy) Whole() bool {
	switch s {
	case StrategyBroadcast, StrategyCustom:
		return true
	case StrategyAuto, StrategyIndex, StrategyMerge, StrategyZip:
		return false
	}
	return true
}

// Custom says whether it is searched by something that was registered.
func (s Strategy) Custom() bool {
	switch s {
	case StrategyCustom:
		return true
	case StrategyAuto, StrategyIndex, StrategyMerge, StrategyZip, StrategyBroadcast:
		return false
	}
	return false
}

// Merges says whether keys that turn out sorted are searched as they are.
func (s Strategy) Merges() bool {
	switch s {
	case StrategyAuto, StrategyBroadcast, StrategyMerge, StrategyZip:
		return true
	case StrategyIndex, StrategyCustom:
		return false
	}
	return false
}

// Zips says whether a search looks at the next staging row first.
func (s Strategy) Zips() bool {
	switch s {
	case StrategyZip:
		return true
	case StrategyAuto, StrategyIndex, StrategyMerge, StrategyBroadcast, StrategyCustom:
		return false
	}
	return false
}

// FallsBack says whether sorted keys are indexed after all where searches jump.
func (s Strategy) FallsBack() bool {
	switch s {
	case StrategyAuto, StrategyBroadcast:
		return true
	case StrategyIndex, StrategyMerge, StrategyZip, StrategyCustom:
		return false
	}
	return false
}

// MarshalText is String.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s.String()), Check(s, Strategies()) }
