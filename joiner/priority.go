package joiner

// Priorities writes to dst a number for each row that follows from its key and the
// seed alone, as good as drawn: equal keys have equal ones, on every machine and in
// every version, since orders of training rows are made of them. A row with a null in
// its key gets what alone says of it, since nulls are not equal.
func (k *Keys) Priorities(seed uint64, dst []uint64, alone func(row int) uint64) {
	for i := range dst {
		switch {
		case k.encoded.null != nil && k.encoded.null[i]:
			dst[i] = alone(i)
			continue
		case k.encoded.ends == nil:
			dst[i] = hashInt(k.encoded.ints[i])
		default:
			dst[i] = hashBytes(k.encoded.key(int32(i)))
		}
		dst[i] = mix(mix(dst[i]^seed, seedB)^seedC, seedA)
	}
}
