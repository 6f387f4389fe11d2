use pooled::{Conn, Pool, PoolError};

fn message(conn: &Conn) -> String {
    conn.send("hello")
}

#[test]
fn limit() {
    let pool = Pool::new("db:1", 1);
    let conn = pool.take_conn().unwrap();
    assert_eq!(pool.open_conns(), 1);
    assert_eq!(
        pool.take_conn().map(|_| ()),
        Err(PoolError::Exhausted { limit: 1 })
    );
    drop(conn);
    assert_eq!(pool.open_conns(), 0);
}

#[test]
fn sent_lines() {
    let pool = Pool::new("db:1", 2);
    let conn = pool.take_conn().unwrap();
    assert_eq!(message(&conn), "db:1 < hello");
    assert_eq!(pool.log(), ["db:1 < hello"]);
}
