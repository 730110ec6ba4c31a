// The checkout of the shop service.
import { chargeV1 } from "payments";

export function pay(cart) {
  return chargeV1(cart.customer, cart.total); // the old call knows no currency
}
