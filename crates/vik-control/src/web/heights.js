// The heights of very many rows and their prefix sums in a Fenwick tree: finding the row at an offset and the offset of
// a row takes O(log n).

export class Heights {
  constructor(defaultHeight) {
    this.defaultHeight = defaultHeight;
    this.count = 0;
    this.heights = new Float32Array(0);
    this.tree = new Float64Array(1);
    this.isMeasured = new Uint8Array(0);
  }

  resize(count) {
    if (count > this.heights.length) {
      const heights = new Float32Array(Math.max(1024, count, this.heights.length * 2));
      heights.set(this.heights);
      const isMeasured = new Uint8Array(heights.length);
      isMeasured.set(this.isMeasured);
      this.heights = heights;
      this.isMeasured = isMeasured;
      this.fill(this.count, count);
      this.build();
    } else if (count > this.count) {
      for (let index = this.count; index < count; index++) this.set(index, this.defaultHeight);
    }
    this.count = count;
  }

  fill(start, end) {
    for (let index = start; index < end; index++) this.heights[index] = this.defaultHeight;
  }

  build() {
    const n = this.heights.length;
    this.tree = new Float64Array(n + 1);
    for (let index = 1; index <= n; index++) {
      this.tree[index] += this.heights[index - 1];
      const up = index + (index & -index);
      if (up <= n) this.tree[up] += this.tree[index];
    }
  }

  set(index, height) {
    const delta = Math.fround(height) - this.heights[index];
    if (!delta) return false;
    this.heights[index] = height;
    for (let i = index + 1; i < this.tree.length; i += i & -i) this.tree[i] += delta;
    return true;
  }

  measure(index, height) {
    this.isMeasured[index] = 1;
    return this.set(index, height);
  }

  /** Sets a better estimate for a row that was never measured. */
  estimate(index, height) {
    return this.isMeasured[index] ? false : this.set(index, height);
  }

  /** Returns the sum of the heights of all rows before a row. */
  offsetOf(index) {
    let sum = 0;
    for (let i = index; i > 0; i -= i & -i) sum += this.tree[i];
    return sum;
  }

  total() {
    return this.offsetOf(this.count);
  }

  /** Returns the index of the row at an offset. */
  rowAtOffset(offset) {
    let index = 0;
    let remaining = offset;
    for (let bit = 1 << 30; bit; bit >>= 1) {
      const next = index + bit;
      if (next < this.tree.length && this.tree[next] <= remaining) {
        index = next;
        remaining -= this.tree[next];
      }
    }
    return Math.max(0, Math.min(index, this.count - 1));
  }
}
