// Invoices of the billing service.
import { chargeV2 } from "payments";

export function settle(invoice) {
  return chargeV2(invoice.customer, invoice.total, invoice.currency);
}
