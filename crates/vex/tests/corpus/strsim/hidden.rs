#[test]
fn swaps_cost_one() {
    for (a, b, distance) in [("ab", "ba", 1), ("abcd", "badc", 2), ("ca", "abc", 3), ("", "ab", 2), ("xyz", "xyz", 0)] {
        assert_eq!(strsim::osa_distance(a, b), distance, "{a} {b}");
    }
}
