use invoice::{Invoice, Line};

#[test]
fn without_discount() {
    let mut invoice = Invoice::new(190);
    invoice.add(Line::new("paper", 3, 499));
    invoice.add(Line::new("pens", 10, 120));
    assert_eq!(invoice.net(), 2697);
    assert_eq!(invoice.tax(), 512);
    assert_eq!(invoice.total(), 3209);
}

#[test]
fn discount_is_rounded_half_up() {
    // 15 % of 4.99 are 74.85 cents.
    assert_eq!(Line::new("paper", 1, 499).with_discount(15).net(), 424);
    // 50 % of 4.99 are 249.5 cents.
    assert_eq!(Line::new("paper", 1, 499).with_discount(50).net(), 249);
}

#[test]
fn tax_is_of_the_net_amount() {
    let mut invoice = Invoice::new(190);
    invoice.add(Line::new("chair", 1, 10_000).with_discount(20));
    assert_eq!(invoice.tax(), 1520);
    assert_eq!(invoice.summary(), "net 80.00, tax 15.20, total 95.20");
}
