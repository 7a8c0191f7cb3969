package main

// mixMutants break the admission of a mix's streams.
func mixMutants() []mutant {
	flight := []string{"-run", "Mix|TestSlots", "./flight"}
	return []mutant{
		{"mixes-need-one-slot", "flight/mix.go", "	return p.streams\n", "	return 1\n", flight},
		{"mixes-keep-one-slot-less", "flight/mix.go", "kept: p.streams - 1}", "kept: p.streams - 2}", flight},
		{"mixes-keep-slots-for-ever", "flight/mix.go", "		a.freeMix(p.host, m)\n		a.grantAll()\n", "", flight},
		{"slots-of-mixes-are-for-any-host", "flight/admission.go", "mixKey{c.host, c.mix.id}", "mixKey{\"\", c.mix.id}", flight},
		{"blocked-streams-stay-blocked", "flight/admission.go", "		a.grantAll() // a mix that waited may have blocked others\n", "", flight},
		{"late-streams-of-a-mix-wait-in-line", "flight/admission.go", "p.resumes || a.isLate(p) || g", "p.resumes || g", flight},
		{"mixes-go-first-without-end", "flight/mix.go", "m != nil && m.streams+m.kept < m.of", "m != nil", flight},
		{"parked-mixes-gather-again", "flight/mix.go", "	if p.resumes || p.streams <= 1", "	if p.streams <= 1", flight},
	}
}
