package function

import "unicode"

// lowerDiffers returns the letters whose lower case is not the same in DuckDB, Spark and Go. Spark maps İ to two
// characters, and Σ to ς at the end of a word. The others are letters of Unicode 16, which only Spark knows.
func lowerDiffers() *unicode.RangeTable {
	return &unicode.RangeTable{
		R16: []unicode.Range16{
			{0x130, 0x130, 1}, {0x3a3, 0x3a3, 1}, {0x1c89, 0x1c89, 1}, {0xa7cb, 0xa7cc, 1}, {0xa7da, 0xa7da, 1}, {0xa7dc, 0xa7dc, 1},
		},
		R32: []unicode.Range32{{0x10d50, 0x10d65, 1}},
	}
}

// upperDiffers returns the letters whose upper case is not the same in DuckDB, Spark and Go: Spark maps letters such as ß and
// ligatures to several characters, and knows the letters of Unicode 16.
func upperDiffers() *unicode.RangeTable {
	return &unicode.RangeTable{
		R16: []unicode.Range16{
			{0xdf, 0xdf, 1},
			{0x149, 0x149, 1},
			{0x19b, 0x19b, 1},
			{0x1f0, 0x1f0, 1},
			{0x264, 0x264, 1},
			{0x390, 0x390, 1},
			{0x3b0, 0x3b0, 1},
			{0x587, 0x587, 1},
			{0x1c8a, 0x1c8a, 1},
			{0x1e96, 0x1e9a, 1},
			{0x1f50, 0x1f50, 1},
			{0x1f52, 0x1f52, 1},
			{0x1f54, 0x1f54, 1},
			{0x1f56, 0x1f56, 1},
			{0x1f80, 0x1faf, 1},
			{0x1fb2, 0x1fb4, 1},
			{0x1fb6, 0x1fb7, 1},
			{0x1fbc, 0x1fbc, 1},
			{0x1fc2, 0x1fc4, 1},
			{0x1fc6, 0x1fc7, 1},
			{0x1fcc, 0x1fcc, 1},
			{0x1fd2, 0x1fd3, 1},
			{0x1fd6, 0x1fd7, 1},
			{0x1fe2, 0x1fe4, 1},
			{0x1fe6, 0x1fe7, 1},
			{0x1ff2, 0x1ff4, 1},
			{0x1ff6, 0x1ff7, 1},
			{0x1ffc, 0x1ffc, 1},
			{0xa7cd, 0xa7cd, 1},
			{0xa7db, 0xa7db, 1},
			{0xfb00, 0xfb06, 1},
			{0xfb13, 0xfb17, 1},
		},
		R32:         []unicode.Range32{{0x10d70, 0x10d85, 1}},
		LatinOffset: 1,
	}
}
