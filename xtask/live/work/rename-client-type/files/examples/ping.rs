//! Sends one message.

use pooled::{Conn, Pool, PoolError};

fn ping(conn: &Conn) -> String {
    conn.send("ping")
}

fn main() -> Result<(), PoolError> {
    let pool = Pool::new("db:5432", 1);
    println!("{}", ping(&pool.take_conn()?));
    Ok(())
}
